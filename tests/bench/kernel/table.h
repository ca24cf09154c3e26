#pragma once
/* The profile of a kernel's sessions as eventctl profile prints it. After all
 * loops have ended. */
#include <stdio.h>

struct kernel;

void table_print(const struct kernel *k, FILE *f);
