#include "lib/api/llm_internal.h"
#include "lib/base/status.h"

#include <string.h>

enum { MAX_THREADS = 1024 };

static void forward_note(void *user, ember_log_level level, const char *line) {
    (void)level;
    const ember_context *context = user;
    if (context->note) context->note(context->note_user, line);
}

ember_status ember_context_create(ember_context **out, const ember_context_options *options) {
    *out = NULL;
    const ember_context_options defaults = {0};
    const ember_context_options *o = options ? options : &defaults;
    if (o->n_threads < 0 || o->n_threads > MAX_THREADS) {
        return ember_fail(EMBER_E_ARGUMENT, "%d threads; it must be 0 (all) to %d", o->n_threads, MAX_THREADS);
    }
    if (o->device && strcmp(o->device, "cuda") == 0) {
        return ember_fail(EMBER_E_DEVICE, "device cuda: this build has the CPU backend alone; use device cpu");
    }
    if (o->device && strcmp(o->device, "cpu") != 0 && strcmp(o->device, "auto") != 0) {
        return ember_fail(EMBER_E_ARGUMENT, "device \"%s\"; it must be auto or cpu", o->device);
    }
    ember_context *context = NULL;
    EMBER_TRY(ember_allocate((void **)&context, 1, sizeof *context, "context"));
    context->note = o->note;
    context->note_user = o->note_user;
    context->log = (ember_log){.sink = forward_note, .user = context};
    const ember_status status = ember_cpu_backend_create(&context->backend, o->n_threads);
    if (status != EMBER_OK) {
        ember_context_free(context);
        return status;
    }
    *out = context;
    return EMBER_OK;
}

void ember_context_free(ember_context *context) {
    if (!context) return;
    if (context->backend) ember_backend_free(context->backend);
    ember_release(context);
}
