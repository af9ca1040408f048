#include "train/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "lib/base/status.h"

/* A signal handler can reach nothing but a global. */
static volatile sig_atomic_t first_signal;
static struct sigaction previous_int;
static struct sigaction previous_term;
static bool installed;

static void on_signal(int number) {
    if (first_signal == 0) first_signal = number;
}

ember_status ember_interrupt_install(void) {
    if (installed) return EMBER_OK;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(SIGINT, &action, &previous_int) != 0) return ember_fail(EMBER_E_IO, "cannot watch SIGINT: %s", strerror(errno));
    if (sigaction(SIGTERM, &action, &previous_term) != 0) {
        const int number = errno;
        (void)sigaction(SIGINT, &previous_int, NULL);
        return ember_fail(EMBER_E_IO, "cannot watch SIGTERM: %s", strerror(number));
    }
    installed = true;
    return EMBER_OK;
}

void ember_interrupt_remove(void) {
    if (installed) {
        (void)sigaction(SIGINT, &previous_int, NULL);
        (void)sigaction(SIGTERM, &previous_term, NULL);
        installed = false;
    }
    first_signal = 0;
}

bool ember_interrupt_requested(void *user) {
    (void)user;
    return first_signal != 0;
}

const char *ember_interrupt_name(void) { return first_signal == SIGINT ? "SIGINT" : first_signal == SIGTERM ? "SIGTERM" : ""; }
