/* The schedulers and sessions of the kernel's tests. */
#include "kernel/fixture.c"
