/* yaml_text.c - texts on their way out: into messages, and as quoted scalars. */
#include <stdio.h>
#include <string.h>

#include "lib/base/status.h"
#include "lib/config/yaml_reader.h"

const char *ember_yaml_shown(char out[256], const char *text) {
    enum { SHOWN_BYTES = 60 };
    size_t used = 0;
    size_t i = 0;
    for (; text[i] != '\0' && i < SHOWN_BYTES; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f) {
            used += (size_t)snprintf(out + used, 5, "\\x%02x", c);
        } else {
            out[used++] = (char)c;
        }
    }
    /* Do not end inside a character. */
    if (text[i] != '\0') {
        while (i > 0 && ((unsigned char)text[i] & 0xc0) == 0x80) {
            used--;
            i--;
        }
        memcpy(out + used, "...", 3);
        used += 3;
    }
    out[used] = '\0';
    return out;
}

size_t ember_yaml_utf8_length(const char *text, size_t n) {
    if (n == 0) return 0;
    const unsigned char *b = (const unsigned char *)text;
    if (b[0] < 0x80) return 1;
    const size_t length = b[0] >= 0xc2 && b[0] <= 0xdf ? 2 : (b[0] & 0xf0) == 0xe0 ? 3 : b[0] >= 0xf0 && b[0] <= 0xf4 ? 4 : 0;
    if (length == 0 || length > n) return 0;
    for (size_t i = 1; i < length; i++) {
        if ((b[i] & 0xc0) != 0x80) return 0;
    }
    /* Overlong forms, surrogates, and above U+10FFFF. */
    if (b[0] == 0xe0 && b[1] < 0xa0) return 0;
    if (b[0] == 0xed && b[1] > 0x9f) return 0;
    if (b[0] == 0xf0 && b[1] < 0x90) return 0;
    if (b[0] == 0xf4 && b[1] > 0x8f) return 0;
    return length;
}

static unsigned code_point(const unsigned char *b, size_t length) {
    if (length == 1) return b[0];
    if (length == 2) return (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu);
    if (length == 3) return (b[0] & 0x0fu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
    return (b[0] & 0x07u) << 18 | (b[1] & 0x3fu) << 12 | (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu);
}

/* Characters that YAML takes for line breaks or refuses in a stream, though an escape of them is fine. */
static bool needs_escape(unsigned c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe || c == 0xffff;
}

ember_status ember_yaml_quote(ember_bytes *out, const char *text) {
    EMBER_TRY(ember_bytes_append(out, "\"", 1));
    const size_t n = strlen(text);
    for (size_t i = 0; i < n;) {
        const size_t length = ember_yaml_utf8_length(text + i, n - i);
        if (length == 0) {
            char shown[256];
            return ember_fail(EMBER_E_CONFIG, "\"%s\": byte 0x%02x at offset %zu is not UTF-8, which a config must be",
                              ember_yaml_shown(shown, text), (unsigned char)text[i], i);
        }
        const unsigned c = code_point((const unsigned char *)text + i, length);
        if (c == '"' || c == '\\') {
            EMBER_TRY(ember_bytes_printf(out, "\\%c", (int)c));
        } else if (c == '\n') {
            EMBER_TRY(ember_bytes_append(out, "\\n", 2));
        } else if (needs_escape(c)) {
            EMBER_TRY(ember_bytes_printf(out, "\\u%04X", c));
        } else {
            EMBER_TRY(ember_bytes_append(out, text + i, length));
        }
        i += length;
    }
    return ember_bytes_append(out, "\"", 1);
}
