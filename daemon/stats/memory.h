#pragma once
/* Memory of this process, as the kernel counts it. Any thread. */
#include <stdint.h>

uint64_t memory_resident(void); /* bytes; 0: cannot tell */
