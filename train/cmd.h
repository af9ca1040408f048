/* cmd.h - the subcommands. Each gets the words after its name (argv[0] is the name), prints to stdout, and
 * returns a status; main.c turns that into the exit code and prints ember_last_error(). */
#ifndef EMBER_CMD_H
#define EMBER_CMD_H

#include "lib/base/log.h"
#include "lib/ember.h"

EMBER_CHECKED ember_status cmd_train(int argc, char **argv);
EMBER_CHECKED ember_status cmd_generate(int argc, char **argv);
EMBER_CHECKED ember_status cmd_eval(int argc, char **argv);
EMBER_CHECKED ember_status cmd_stats(int argc, char **argv);
EMBER_CHECKED ember_status cmd_import(int argc, char **argv);
EMBER_CHECKED ember_status cmd_data(int argc, char **argv);
EMBER_CHECKED ember_status cmd_inspect(int argc, char **argv);
EMBER_CHECKED ember_status cmd_plan(int argc, char **argv);
EMBER_CHECKED ember_status cmd_info(int argc, char **argv);
EMBER_CHECKED ember_status cmd_bench(int argc, char **argv);
EMBER_CHECKED ember_status cmd_help(int argc, char **argv);

/* Messages of the library to stderr, "note: ..." and "warning: ..." in front. */
const ember_log *cmd_log(void);

#endif
