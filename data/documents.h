/* documents.h - cuts a stream of bytes into documents. Nothing is lost: the documents of a file, one after
 * the other, are the file byte for byte (except separators and JSON, which are not text). */
#ifndef EMBER_DOCUMENTS_H
#define EMBER_DOCUMENTS_H

#include "lib/base/memory.h"

typedef enum ember_document_kind {
    EMBER_DOCUMENT_FILE = 0,   /* each file is one */
    EMBER_DOCUMENT_LINE,       /* each line with its end (\n or \r\n); empty lines stay with the one before */
    EMBER_DOCUMENT_BLANK_LINE, /* a document begins after one or more empty lines */
    EMBER_DOCUMENT_BLOCKS,     /* ... when the one before has block_bytes already; after twice as many, at any line */
    EMBER_DOCUMENT_SEPARATOR,  /* between two occurrences of a string, which is left out */
    EMBER_DOCUMENT_JSONL       /* a string field of the JSON object on each line */
} ember_document_kind;

typedef struct ember_document_rule {
    ember_document_kind kind;
    int64_t block_bytes;   /* BLOCKS */
    ember_bytes separator; /* SEPARATOR */
    ember_bytes field;     /* JSONL */
} ember_document_rule;

/* "file", "line", "blank-line", "blocks:BYTES", "separator:STRING" (with \n \r \t \0 \\ \xHH), "jsonl" or
 * "jsonl:FIELD" (default text). Errors: EMBER_E_ARGUMENT. Free with _rule_free in every case. */
EMBER_CHECKED ember_status ember_document_rule_parse(ember_document_rule *out, const char *text);
void ember_document_rule_free(ember_document_rule *rule);

/* Text of the current document, in pieces; then its end. An end without text is an empty document. */
typedef struct ember_document_sink {
    ember_status (*text)(void *user, const char *bytes, size_t n);
    ember_status (*end)(void *user);
    void *user;
} ember_document_sink;

typedef struct ember_splitter ember_splitter;
/* `rule` must outlive the splitter. */
EMBER_CHECKED ember_status ember_splitter_create(ember_splitter **out, const ember_document_rule *rule, ember_document_sink sink);
void ember_splitter_free(ember_splitter *splitter);
/* The next bytes of a file, then its end; `path` names it in messages. A document never spans files.
 * Errors: of the sink; EMBER_E_FORMAT for a line that is not such a JSON object. */
EMBER_CHECKED ember_status ember_splitter_feed(ember_splitter *splitter, const char *path, const char *bytes, size_t n);
EMBER_CHECKED ember_status ember_splitter_finish_file(ember_splitter *splitter, const char *path);

#endif
