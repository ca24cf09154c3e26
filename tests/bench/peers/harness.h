#pragma once
/* What common.c, roles.c and scenarios.c share and peers do not need. */
#include <stdint.h>
#include <sys/types.h>

struct bench;

extern struct bench *the_bench; /* of this process tree */
extern pid_t main_pid;          /* of the harness */

void futex_wait(void *word, uint32_t old, long timeout_ns);
void futex_wake(void *word);
