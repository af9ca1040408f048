/* optimizer.h - one AdamW update of all parameters, with clipping by the global norm. */
#ifndef EMBER_OPTIMIZER_H
#define EMBER_OPTIMIZER_H

#include "lib/config/settings.h"
#include "lib/model/model.h"

typedef struct ember_optimizer {
    double beta1;
    double beta2;
    double eps;
    double weight_decay; /* matrices alone; norms and biases never decay. Embedding and head are matrices */
    double clip;         /* 0: off */
} ember_optimizer;

ember_optimizer ember_optimizer_from(const ember_settings *settings);

/* Euclidean norm of all gradients as one vector, squares summed in double in parameter order; a
 * tied matrix is one parameter, so it is one term. NaN and infinity propagate. */
EMBER_CHECKED ember_status ember_optimizer_grad_norm(ember_model *model, double *norm);
/* min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; 1 without clipping. */
double ember_optimizer_clip_scale(const ember_optimizer *optimizer, double norm);
/* AdamW of optimizer step `step` (1 for the first); gradients are scaled by `grad_scale`. */
EMBER_CHECKED ember_status ember_optimizer_step(const ember_optimizer *optimizer, ember_model *model, double lr, double grad_scale,
                                                int64_t step);

#endif
