/* loader_thread.c - one batch ahead. The caller reads one slot while the thread fills the other; the
 * position of the loader counts only what was handed out, so reading ahead is never part of a resume. */
#include <signal.h>
#include <string.h>

#include "data/loader_internal.h"
#include "lib/base/status.h"

static void *run(void *argument) {
    ember_loader *loader = argument;
    (void)pthread_mutex_lock(&loader->lock);
    for (;;) {
        while (loader->wanted < 0 && !atomic_load(&loader->stop))
            (void)pthread_cond_wait(&loader->changed, &loader->lock);
        if (atomic_load(&loader->stop)) break;
        loader_slot *slot = &loader->slots[loader->wanted];
        const uint64_t position = loader->wanted_position;
        (void)pthread_mutex_unlock(&loader->lock);
        /* The slot is the thread's alone until `wanted` is -1 again. */
        loader_fill(loader, slot, position);
        (void)pthread_mutex_lock(&loader->lock);
        loader->wanted = -1;
        (void)pthread_cond_broadcast(&loader->changed);
    }
    (void)pthread_mutex_unlock(&loader->lock);
    return NULL;
}

ember_status loader_thread_start(ember_loader *loader) {
    loader->wanted = -1;
    if (pthread_mutex_init(&loader->lock, NULL) != 0) return ember_fail(EMBER_E_MEMORY, "loader: cannot make a lock");
    if (pthread_cond_init(&loader->changed, NULL) != 0) {
        (void)pthread_mutex_destroy(&loader->lock);
        return ember_fail(EMBER_E_MEMORY, "loader: cannot make a condition variable");
    }
    /* Signals go to the threads that know what to do with them. */
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&loader->thread, NULL, run, loader);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        (void)pthread_cond_destroy(&loader->changed);
        (void)pthread_mutex_destroy(&loader->lock);
        return ember_fail(EMBER_E_MEMORY, "loader: cannot start the reading thread: %s", strerror(failed));
    }
    loader->thread_started = true;
    return EMBER_OK;
}

/* With the lock held. */
static void ask(ember_loader *loader, int slot, uint64_t position) {
    loader->slots[slot].filled = false;
    loader->wanted = slot;
    loader->wanted_position = position;
    (void)pthread_cond_broadcast(&loader->changed);
}

static void wait_idle(ember_loader *loader) {
    while (loader->wanted >= 0)
        (void)pthread_cond_wait(&loader->changed, &loader->lock);
}

loader_slot *loader_thread_take(ember_loader *loader) {
    (void)pthread_mutex_lock(&loader->lock);
    const int next = 1 - loader->borrowed;
    wait_idle(loader);
    if (!loader->slots[next].filled) {
        ask(loader, next, loader->position);
        wait_idle(loader);
    }
    loader_slot *slot = &loader->slots[next];
    if (slot->status == EMBER_OK) {
        ask(loader, loader->borrowed, loader_advance(loader, loader->position));
        loader->borrowed = next;
    } else {
        slot->filled = false; /* a further call tries again */
    }
    (void)pthread_mutex_unlock(&loader->lock);
    return slot;
}

void loader_thread_reset(ember_loader *loader) {
    (void)pthread_mutex_lock(&loader->lock);
    wait_idle(loader);
    loader->slots[1 - loader->borrowed].filled = false;
    (void)pthread_mutex_unlock(&loader->lock);
}

void loader_thread_stop(ember_loader *loader) {
    if (!loader->thread_started) return;
    (void)pthread_mutex_lock(&loader->lock);
    atomic_store(&loader->stop, true);
    (void)pthread_cond_broadcast(&loader->changed);
    (void)pthread_mutex_unlock(&loader->lock);
    (void)pthread_join(loader->thread, NULL);
    (void)pthread_cond_destroy(&loader->changed);
    (void)pthread_mutex_destroy(&loader->lock);
    loader->thread_started = false;
}
