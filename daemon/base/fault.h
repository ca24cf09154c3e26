#pragma once
/* Fault points: FAULT(mailbox_push) is false, until a test arms the point of
 * that name to fail at its n-th pass. Compiled out with NDEBUG. */
#include <stdbool.h>

#ifdef NDEBUG
#define FAULT(name) false
#else
#define FAULT(name) fault_hits(#name)
#endif

/* Fail the @nth pass (1: the next) of the point called @name; 0 disarms. */
void fault_arm(const char *name, unsigned nth);
/* "NAME:N,NAME:N...": each N-th pass of these fails, for ever; before there are
 * threads. -1: it cannot be read. */
int fault_arm_always(const char *text);
bool fault_hits(const char *name);
