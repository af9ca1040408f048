#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "lib/h5/h5_internal.h"

ember_status h5_pread(const ember_h5_reader *file, void *out, size_t n, uint64_t offset, const char *object) {
    if (offset > file->file_bytes || n > file->file_bytes - offset) {
        return ember_fail(EMBER_E_CORRUPT, "%s: %s reaches beyond the end of the file (%llu bytes): truncated or damaged", file->path,
                          object, (unsigned long long)file->file_bytes);
    }
    size_t done = 0;
    while (done < n) {
        const ssize_t got = pread(file->fd, (char *)out + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ember_fail(EMBER_E_IO, "%s: %s cannot be read: %s", file->path, object, strerror(errno));
        if (got == 0) return ember_fail(EMBER_E_CORRUPT, "%s: %s: the file became shorter while it was read", file->path, object);
        done += (size_t)got;
    }
    return EMBER_OK;
}

static ember_status find_entry(const ember_h5_reader *file, const char *object, const h5_entry **out) {
    *out = h5_index_find(&file->index, object);
    if (!*out) return ember_fail(EMBER_E_NOT_FOUND, "%s: there is no dataset %s", file->path, object);
    if ((*out)->is_group) return ember_fail(EMBER_E_NOT_FOUND, "%s: %s is a group, not a dataset", file->path, object);
    return EMBER_OK;
}

bool ember_h5_has(const ember_h5_reader *file, const char *object) { return h5_index_find(&file->index, object) != NULL; }

ember_status ember_h5_get_info(const ember_h5_reader *file, const char *object, ember_h5_info *out) {
    const h5_entry *entry = NULL;
    EMBER_TRY(find_entry(file, object, &entry));
    if (entry->why_not) return ember_fail(EMBER_E_UNSUPPORTED, "%s: dataset %s cannot be read: %s", file->path, object, entry->why_not);
    *out = entry->info;
    if (entry->info.is_text) out->file_offset = UINT64_MAX;
    return EMBER_OK;
}

/* ---- conversion */

static bool is_float(ember_dtype dtype) { return dtype == EMBER_F32 || dtype == EMBER_F64 || dtype == EMBER_BF16 || dtype == EMBER_F16; }

static double load_float(ember_dtype dtype, const unsigned char *from) {
    uint16_t half = 0;
    float single = 0;
    double value = 0;
    switch (dtype) {
    case EMBER_F32: memcpy(&single, from, sizeof single); return (double)single;
    case EMBER_BF16: memcpy(&half, from, sizeof half); return (double)ember_f32_from_bf16(half);
    case EMBER_F16: memcpy(&half, from, sizeof half); return (double)ember_f32_from_f16(half);
    default: memcpy(&value, from, sizeof value); return value;
    }
}

static void store_float(ember_dtype dtype, unsigned char *to, double value) {
    const float single = (float)value;
    const uint16_t half = ember_bf16_from_f32(single);
    if (dtype == EMBER_F32) memcpy(to, &single, sizeof single);
    if (dtype == EMBER_F64) memcpy(to, &value, sizeof value);
    if (dtype == EMBER_BF16) memcpy(to, &half, sizeof half);
}

static void convert(ember_dtype to_dtype, unsigned char *to, ember_dtype from_dtype, const unsigned char *from, size_t n) {
    const size_t to_bytes = ember_dtype_bytes(to_dtype);
    const size_t from_bytes = ember_dtype_bytes(from_dtype);
    if (to_dtype == from_dtype) {
        if (n > 0) memcpy(to, from, n * to_bytes);
        return;
    }
    if (to_dtype == EMBER_F32 && from_dtype == EMBER_BF16) { /* whole models take this way */
        for (size_t i = 0; i < n; i++) {
            uint16_t half;
            memcpy(&half, from + 2 * i, sizeof half);
            const float value = ember_f32_from_bf16(half);
            memcpy(to + 4 * i, &value, sizeof value);
        }
        return;
    }
    for (size_t i = 0; i < n; i++)
        store_float(to_dtype, to + i * to_bytes, load_float(from_dtype, from + i * from_bytes));
}

static ember_status check_request(const ember_h5_reader *file, const h5_entry *entry, ember_tensor tensor) {
    const ember_h5_info *info = &entry->info;
    if (entry->why_not || info->is_text) {
        return ember_fail(EMBER_E_UNSUPPORTED, "%s: dataset %s cannot be read as numbers: %s", file->path, entry->path,
                          entry->why_not ? entry->why_not : "it is a text");
    }
    bool same = info->n_dims == tensor.n_dims;
    for (int i = 0; i < tensor.n_dims && same; i++)
        same = info->dims[i] == tensor.dims[i];
    if (!same) {
        char have[128] = "";
        char want[128] = "";
        size_t a = 0;
        size_t b = 0;
        for (int i = 0; i < info->n_dims; i++)
            a += (size_t)snprintf(have + a, sizeof have - a, "%s%lld", i ? "," : "", (long long)info->dims[i]);
        for (int i = 0; i < tensor.n_dims && i < EMBER_MAX_DIMS; i++) {
            b += (size_t)snprintf(want + b, sizeof want - b, "%s%lld", i ? "," : "", (long long)tensor.dims[i]);
        }
        return ember_fail(EMBER_E_SHAPE, "%s: dataset %s has shape [%s], expected is [%s]", file->path, entry->path, have, want);
    }
    if (tensor.dtype != entry->dtype && !(is_float(entry->dtype) && is_float(tensor.dtype) && tensor.dtype != EMBER_F16)) {
        return ember_fail(EMBER_E_SHAPE, "%s: dataset %s holds %s, which does not convert to %s", file->path, entry->path,
                          ember_dtype_name(entry->dtype), ember_dtype_name(tensor.dtype));
    }
    return EMBER_OK;
}

static ember_status mismatch(const ember_h5_reader *file, const h5_entry *entry) {
    return ember_fail(EMBER_E_CORRUPT, "%s: dataset %s differs from its hash in the manifest: the file is damaged", file->path,
                      entry->path);
}

/* Contiguous bytes, block by block: hashed where there is a hash, converted when `to` is given. */
static ember_status read_raw(const ember_h5_reader *file, const h5_entry *entry, ember_dtype to_dtype, unsigned char *to) {
    const size_t element = ember_dtype_bytes(entry->dtype);
    const size_t to_element = to ? ember_dtype_bytes(to_dtype) : 0;
    ember_status status = EMBER_OK;
    XXH3_state_t *state = XXH3_createState();
    if (!state) return ember_fail(EMBER_E_MEMORY, "%s: no memory for a hash", file->path);
    (void)XXH3_64bits_reset(state);
    for (uint64_t done = 0; done < entry->info.bytes;) {
        const uint64_t left = entry->info.bytes - done;
        const size_t n = left < H5_BLOCK_BYTES ? (size_t)left : H5_BLOCK_BYTES;
        EMBER_TRY_GOTO(h5_pread(file, file->block, n, entry->info.file_offset + done, entry->path), done_label);
        if (entry->has_hash) (void)XXH3_64bits_update(state, file->block, n);
        if (to) convert(to_dtype, to + (size_t)(done / element) * to_element, entry->dtype, file->block, n / element);
        done += n;
    }
    if (entry->has_hash && XXH3_64bits_digest(state) != entry->data_hash) status = mismatch(file, entry);
done_label:
    (void)XXH3_freeState(state);
    return status;
}

/* Through libhdf5: chunked, compressed or big-endian datasets of foreign files. */
static ember_status read_through(const ember_h5_reader *file, const h5_entry *entry, ember_tensor tensor) {
    hid_t type = -1;
    hid_t dataset = -1;
    void *values = NULL;
    const size_t count = (size_t)ember_tensor_count(tensor);
    EMBER_TRY(h5_type_of(&type, entry->dtype));
    ember_status status = ember_allocate(&values, count, ember_dtype_bytes(entry->dtype), entry->path);
    if (status != EMBER_OK) goto done;
    dataset = H5Dopen2(file->id, entry->path, H5P_DEFAULT);
    if (dataset < 0 || H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) {
        status = h5_fail(EMBER_E_CORRUPT, "%s: dataset %s cannot be read", file->path, entry->path);
        goto done;
    }
    convert(tensor.dtype, tensor.data, entry->dtype, values, count);
done:
    if (dataset >= 0) (void)H5Dclose(dataset);
    (void)H5Tclose(type);
    ember_release(values);
    return status;
}

ember_status ember_h5_get(const ember_h5_reader *file, const char *object, ember_tensor tensor) {
    const h5_entry *entry = NULL;
    EMBER_TRY(h5_library());
    EMBER_TRY(find_entry(file, object, &entry));
    EMBER_TRY(check_request(file, entry, tensor));
    if (entry->info.file_offset == UINT64_MAX && entry->info.bytes > 0) return read_through(file, entry, tensor);
    return read_raw(file, entry, tensor.dtype, tensor.data);
}

/* ---- texts of Ember files. libhdf5 copies a stored string into a buffer sized by another field, and
 * the heap it lies in has no checksum: so the heap is read here, with every length checked. */

static uint64_t little(const unsigned char *from, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | from[i];
    return value;
}

/* Finds object `index` in the heap collection at `heap`; *at and *bytes say where its data lie. */
static ember_status find_in_heap(const ember_h5_reader *file, const char *path, uint64_t heap, uint32_t index, uint64_t *at,
                                 uint64_t *bytes) {
    unsigned char head[16];
    EMBER_TRY(h5_pread(file, head, sizeof head, heap, path));
    const uint64_t size = little(head + 8, 8);
    if (memcmp(head, "GCOL\1", 5) != 0 || size < sizeof head || size > file->file_bytes - heap) {
        return ember_fail(EMBER_E_CORRUPT, "%s: dataset %s: the heap with its text is damaged", file->path, path);
    }
    uint64_t offset = heap + sizeof head;
    const uint64_t end = heap + size;
    while (end - offset >= sizeof head) {
        EMBER_TRY(h5_pread(file, head, sizeof head, offset, path));
        const uint64_t n = little(head + 8, 8);
        const uint64_t room = end - offset - sizeof head;
        if (little(head, 2) == 0 || n > room || room - n < (8 - n % 8) % 8) break;
        if (little(head, 2) == index) {
            *at = offset + sizeof head;
            *bytes = n;
            return EMBER_OK;
        }
        offset += sizeof head + n + (8 - n % 8) % 8;
    }
    return ember_fail(EMBER_E_CORRUPT, "%s: dataset %s: its text is not in its heap", file->path, path);
}

static ember_status own_text(const ember_h5_reader *file, const h5_entry *entry, ember_bytes *out) {
    unsigned char stored[16];
    uint64_t at = 0;
    uint64_t bytes = 0;
    EMBER_TRY(h5_pread(file, stored, sizeof stored, entry->info.file_offset, entry->path));
    const size_t n = (size_t)little(stored, 4);
    if (n > 0) {
        EMBER_TRY(find_in_heap(file, entry->path, little(stored + 4, 8), (uint32_t)little(stored + 12, 4), &at, &bytes));
        if (bytes < n) return ember_fail(EMBER_E_CORRUPT, "%s: dataset %s: its text is shorter than its length", file->path, entry->path);
    }
    EMBER_TRY(ember_bytes_reserve(out, n));
    EMBER_TRY(h5_pread(file, out->data, n, at, entry->path));
    out->n = n;
    out->data[n] = '\0';
    if (entry->has_hash && XXH3_64bits(out->data, n) != entry->data_hash) return mismatch(file, entry);
    return EMBER_OK;
}

static ember_status foreign_text(const ember_h5_reader *file, const h5_entry *entry, ember_bytes *out) {
    ember_status status = EMBER_OK;
    char *text = NULL;
    const hid_t dataset = H5Dopen2(file->id, entry->path, H5P_DEFAULT);
    if (dataset < 0) return h5_fail(EMBER_E_CORRUPT, "%s: dataset %s cannot be opened", file->path, entry->path);
    const hid_t type = H5Dget_type(dataset);
    if (H5Tis_variable_str(type) > 0) {
        if (H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text) < 0) {
            status = h5_fail(EMBER_E_CORRUPT, "%s: dataset %s cannot be read", file->path, entry->path);
        } else {
            status = ember_bytes_append(out, text ? text : "", text ? strlen(text) : 0);
            if (text) (void)H5free_memory(text);
        }
    } else {
        status = ember_bytes_reserve(out, H5Tget_size(type));
        if (status == EMBER_OK && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out->data) < 0) {
            status = h5_fail(EMBER_E_CORRUPT, "%s: dataset %s cannot be read", file->path, entry->path);
        }
        if (status == EMBER_OK) {
            out->n = strnlen(out->data, H5Tget_size(type));
            out->data[out->n] = '\0';
        }
    }
    if (type >= 0) (void)H5Tclose(type);
    (void)H5Dclose(dataset);
    return status;
}

ember_status ember_h5_get_text(const ember_h5_reader *file, const char *object, ember_bytes *out) {
    const h5_entry *entry = NULL;
    *out = (ember_bytes){0};
    EMBER_TRY(h5_library());
    EMBER_TRY(find_entry(file, object, &entry));
    if (!entry->info.is_text) return ember_fail(EMBER_E_FORMAT, "%s: dataset %s is not a text", file->path, object);
    const ember_status status = file->foreign ? foreign_text(file, entry, out) : own_text(file, entry, out);
    if (status != EMBER_OK) ember_bytes_free(out);
    return status;
}

/* ---- checks and walks */

ember_status h5_verify_entry(const ember_h5_reader *file, const h5_entry *entry) {
    if (entry->is_group || !entry->has_hash) return EMBER_OK;
    if (!entry->info.is_text) return read_raw(file, entry, entry->dtype, NULL);
    ember_bytes text = {0};
    const ember_status status = own_text(file, entry, &text);
    ember_bytes_free(&text);
    return status;
}

ember_status ember_h5_verify(const ember_h5_reader *file) {
    for (size_t i = 0; i < file->index.n; i++)
        EMBER_TRY(h5_verify_entry(file, &file->index.items[i]));
    return EMBER_OK;
}

ember_status ember_h5_verify_dataset(const ember_h5_reader *file, const char *object) {
    const h5_entry *entry = NULL;
    EMBER_TRY(find_entry(file, object, &entry));
    return h5_verify_entry(file, entry);
}

ember_status ember_h5_get_dataset_hash(const ember_h5_reader *file, const char *object, uint64_t *out) {
    const h5_entry *entry = NULL;
    EMBER_TRY(find_entry(file, object, &entry));
    if (!entry->has_hash) return ember_fail(EMBER_E_NOT_FOUND, "%s: dataset %s has no hash: the file has no manifest", file->path, object);
    *out = entry->data_hash;
    return EMBER_OK;
}

ember_status ember_h5_walk(const ember_h5_reader *file, const char *group, ember_h5_visit visit) {
    const h5_entry *top = h5_index_find(&file->index, group);
    if (!top || !top->is_group) return ember_fail(EMBER_E_NOT_FOUND, "%s: there is no group %s", file->path, group);
    const size_t n = strcmp(top->path, "/") == 0 ? 0 : strlen(top->path);
    for (size_t i = 0; i < file->index.n; i++) {
        const h5_entry *entry = &file->index.items[i];
        if (strncmp(entry->path, top->path, n) != 0 || entry->path[n] != '/' || entry->path[n + 1] == '\0') continue;
        ember_h5_info info = entry->info;
        if (info.is_text) info.file_offset = UINT64_MAX;
        EMBER_TRY(visit.object(visit.user, entry->path, entry->is_group, &info));
    }
    return EMBER_OK;
}
