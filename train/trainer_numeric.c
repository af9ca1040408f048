#include <math.h>
#include <string.h>

#include "lib/base/atomic_file.h"
#include "lib/base/status.h"
#include "train/trainer_internal.h"

/* The first tensor that holds NaN or infinity: a weight if any does, because then the gradients follow
 * from it, else a gradient. */
static ember_status find_culprit(ember_trainer *trainer, const char **what, const char **name) {
    int64_t index = -1;
    *what = "loss";
    *name = "loss";
    EMBER_TRY(ember_model_find_nonfinite(trainer->model, false, &index));
    if (index >= 0) {
        *what = "weight";
    } else {
        EMBER_TRY(ember_model_find_nonfinite(trainer->model, true, &index));
        if (index >= 0) *what = "gradient";
    }
    if (index >= 0) *name = ember_model_param(trainer->model, index)->spec.name;
    return EMBER_OK;
}

static ember_status put(ember_bytes *out, const char *name, double value) {
    EMBER_TRY(ember_bytes_printf(out, "  \"%s\": ", name));
    EMBER_TRY(ember_json_number(out, value));
    return ember_bytes_append(out, ",\n", 2);
}

/* What the dump is about, beside the trainer's row. */
typedef struct nonfinite_case {
    int64_t step;
    const char *what;
    const char *name;
    double grad_norm;
    int64_t micro_batch; /* -1: none in particular */
} nonfinite_case;

static ember_status dump_text(const ember_trainer *trainer, ember_bytes *out, const nonfinite_case *found) {
    const bool finished = found->step <= trainer->step;
    const ember_loader_position first = finished ? trainer->last_start : trainer->position;
    const ember_loader_position next = finished ? trainer->position : ember_loader_tell(trainer->train_data);
    EMBER_TRY(ember_bytes_printf(out, "{\n  \"step\": %lld,\n  \"kind\": \"%s\",\n  \"tensor\": \"%s\",\n", (long long)found->step,
                                 found->what, found->name));
    EMBER_TRY(put(out, "loss", trainer->row.loss));
    EMBER_TRY(put(out, "ce", trainer->row.ce));
    EMBER_TRY(put(out, "l1", trainer->row.l1));
    EMBER_TRY(put(out, "grad_norm", found->grad_norm));
    EMBER_TRY(put(out, "lambda", trainer->row.lambda));
    EMBER_TRY(put(out, "lr", ember_schedule_lr(&trainer->schedule, found->step)));
    EMBER_TRY(ember_bytes_printf(out, "  \"tokens_seen\": %lld,\n", (long long)trainer->tracker->tokens_seen));
    if (found->micro_batch >= 0) EMBER_TRY(ember_bytes_printf(out, "  \"micro_batch\": %lld,\n", (long long)found->micro_batch));
    EMBER_TRY(ember_bytes_printf(out, "  \"batch\": {\"first_sequence\": %llu, \"end_sequence\": %llu, \"passes\": %llu},\n",
                                 (unsigned long long)first.n_sequences, (unsigned long long)next.n_sequences,
                                 (unsigned long long)next.passes));
    EMBER_TRY(ember_bytes_printf(out, "  \"checkpoint\": "));
    EMBER_TRY(ember_json_text(out, trainer->saved_path.n ? trainer->saved_path.data : "", trainer->saved_path.n));
    return ember_bytes_printf(out, "\n}\n");
}

ember_status trainer_report_nonfinite(ember_trainer *trainer, int64_t step, double grad_norm, int64_t micro_batch) {
    nonfinite_case found = {.step = step, .grad_norm = grad_norm, .micro_batch = micro_batch};
    ember_bytes text = {0};
    ember_bytes path = {0};
    ember_status status;
    EMBER_TRY_GOTO(find_culprit(trainer, &found.what, &found.name), done);
    EMBER_TRY_GOTO(ember_bytes_printf(&path, "%s/nonfinite_step_%lld.json", ember_run_folder_path(trainer->folder), (long long)step), done);
    EMBER_TRY_GOTO(dump_text(trainer, &text, &found), done);
    EMBER_TRY_GOTO(ember_write_file(path.data, text.data, text.n), done);
    status =
        ember_fail(EMBER_E_NUMERIC,
                   "step %lld: the %s of %s is not finite (loss %g, gradient norm %g); training stopped, see %s. Last good checkpoint: "
                   "%s. A lower train.lr, or train.clip above 0, is the usual remedy",
                   (long long)step, found.what, found.name, trainer->row.loss, grad_norm, path.data,
                   trainer->saved_path.n ? trainer->saved_path.data : "none");
done:
    ember_bytes_free(&path);
    ember_bytes_free(&text);
    return status;
}
