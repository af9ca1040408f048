#include "train/optimizer.h"

#include <math.h>

#include "lib/base/status.h"

ember_optimizer ember_optimizer_from(const ember_settings *settings) {
    return (ember_optimizer){.beta1 = settings->train.beta1,
                             .beta2 = settings->train.beta2,
                             .eps = settings->train.eps,
                             .weight_decay = settings->train.weight_decay,
                             .clip = settings->train.clip};
}

ember_status ember_optimizer_grad_norm(ember_model *model, double *norm) {
    ember_backend *backend = ember_model_backend(model);
    double sum = 0;
    for (int64_t i = 0; i < ember_model_n_params(model); i++) {
        const ember_param *param = ember_model_param(model, i);
        EMBER_TRY(backend->ops->sum_squares(backend, &sum, param->grad.data, ember_tensor_count(param->grad)));
    }
    *norm = sqrt(sum);
    return EMBER_OK;
}

double ember_optimizer_clip_scale(const ember_optimizer *optimizer, double norm) {
    if (optimizer->clip <= 0) return 1;
    const double scale = optimizer->clip / (norm + 1e-6);
    return scale < 1 ? scale : 1;
}

ember_status ember_optimizer_step(const ember_optimizer *optimizer, ember_model *model, double lr, double grad_scale, int64_t step) {
    ember_backend *backend = ember_model_backend(model);
    for (int64_t i = 0; i < ember_model_n_params(model); i++) {
        const ember_param *param = ember_model_param(model, i);
        const ember_adamw_args args = {.n = ember_tensor_count(param->value),
                                       .param = param->value.data,
                                       .exp_avg = param->exp_avg.data,
                                       .exp_avg_sq = param->exp_avg_sq.data,
                                       .grad = param->grad.data,
                                       .grad_scale = grad_scale,
                                       .lr = lr,
                                       .beta1 = optimizer->beta1,
                                       .beta2 = optimizer->beta2,
                                       .eps = optimizer->eps,
                                       .weight_decay = param->spec.decay ? optimizer->weight_decay : 0,
                                       .step = step};
        EMBER_TRY(backend->ops->adamw(backend, &args));
    }
    return EMBER_OK;
}
