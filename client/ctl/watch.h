#pragma once
/* Waiting for the end of a session. One thread. */
#include <stdint.h>

struct ctl;

/* Until it has ended, as --timeout says; prints why. 0, or an exit code. */
int watch_until_down(struct ctl *ctl, uint64_t session);
