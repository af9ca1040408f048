/* interrupt.h - SIGINT and SIGTERM as a flag that long work asks for. */
#ifndef EMBER_INTERRUPT_H
#define EMBER_INTERRUPT_H

#include "lib/ember.h"

/* From here on SIGINT and SIGTERM set a flag and nothing else, however often they come, so a save in progress is
 * never cut off. Errors: EMBER_E_IO. */
EMBER_CHECKED ember_status ember_interrupt_install(void);
/* Puts back what was there before _install, and clears the flag. A command does not: a late signal would end the process
 * before it has said how to go on. */
void ember_interrupt_remove(void);
/* True once a signal has come. The signature fits the should_stop callbacks; `user` is unused. */
bool ember_interrupt_requested(void *user);
/* "SIGINT" or "SIGTERM", the first that came; "" before. */
const char *ember_interrupt_name(void);

#endif
