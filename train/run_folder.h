/* run_folder.h - the output folder of a run: one run at a time, its checkpoints by number. */
#ifndef EMBER_RUN_FOLDER_H
#define EMBER_RUN_FOLDER_H

#include "lib/base/log.h"
#include "lib/base/memory.h"

typedef struct ember_run_folder ember_run_folder;

/* Makes the folder when needed and locks it for this process (flock on .lock, so a lock dies with
 * its process). Half-written temporary files of a killed run are removed. Errors: EMBER_E_IO, also when another run holds it. */
EMBER_CHECKED ember_status ember_run_folder_open(ember_run_folder **out, const char *path);
/* Releases the lock. */
void ember_run_folder_close(ember_run_folder *folder);
/* The same after a failure: what _open made is removed again, as far as nothing else is in it. */
void ember_run_folder_undo(ember_run_folder *folder);
const char *ember_run_folder_path(const ember_run_folder *folder);
/* `out` = folder/name. */
EMBER_CHECKED ember_status ember_run_folder_file(ember_bytes *out, const char *folder, const char *name);

/* Number of step_<n>.h5 and best.h5 files; 0 for a folder that does not exist. */
EMBER_CHECKED ember_status ember_run_folder_count(const char *path, int64_t *n_checkpoints);
/* n of "step_<n>.h5", -1 for any other name. */
int64_t ember_run_folder_step_of(const char *name);
/* Removes step_<n>.h5 files up to `step`, all but the newest `keep` (at least 1). */
EMBER_CHECKED ember_status ember_run_folder_prune(const ember_run_folder *folder, int64_t step, int64_t keep);
/* Renames step_<n>.h5 with n above `step` to superseded_step_<n>.h5: they belong to a branch that
 * a resume from an earlier checkpoint has left. Says so through `log`. */
EMBER_CHECKED ember_status ember_run_folder_supersede(const ember_run_folder *folder, int64_t step, const ember_log *log);
/* The same for one file; ember_checkpoint_newest passes over names that begin with superseded_. */
EMBER_CHECKED ember_status ember_run_folder_set_aside(const ember_run_folder *folder, const char *name, const ember_log *log);
/* True when the file `path` lies directly in the folder. */
bool ember_run_folder_holds(const char *folder, const char *path);

#endif
