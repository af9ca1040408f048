/* trainer_state.h - the numbers of /state that writer and reader of a run's checkpoint share. */
#ifndef EMBER_TRAINER_STATE_H
#define EMBER_TRAINER_STATE_H

#include "lib/model/tracker.h"
#include "train/trainer_internal.h"

/* blocks, steps of a block, head, tokens_seen; then tokens and steps of each block of the ring */
enum { TRAINER_TRACKER_NUMBERS = 4 + 2 * EMBER_TRACKER_BLOCKS };

void trainer_pack_tracker(int64_t *numbers, const ember_tracker *tracker);
/* EMBER_E_CORRUPT for numbers that no tracker has. The ring of another window is dropped, which
 * *kept tells; everything else stays. */
EMBER_CHECKED ember_status trainer_unpack_tracker(ember_tracker *tracker, const int64_t *numbers, bool *kept);

/* step_<n>.h5 of the present step; older ones beyond checkpoint.keep_last go. */
EMBER_CHECKED ember_status trainer_save_step(ember_trainer *trainer);
/* best.h5 with the present state; a link where step_<n>.h5 of this step is there. */
EMBER_CHECKED ember_status trainer_save_best(ember_trainer *trainer);

#endif
