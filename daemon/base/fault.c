#include "base/fault.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_SIZE = 64, ALWAYS_MAX = 16 };

static char armed_name[NAME_MAX_SIZE];
static _Atomic unsigned left;

/* Those that fail again and again: set once, before there are threads. */
static struct {
	char name[NAME_MAX_SIZE];
	unsigned period;
	_Atomic unsigned passes;
} always[ALWAYS_MAX];
static unsigned n_always;

void
fault_arm(const char *name, unsigned nth)
{
	if (strcmp(armed_name, name) != 0) /* again: others may look at it */
		strncpy(armed_name, name, sizeof(armed_name) - 1);
	atomic_store(&left, nth);
}

int
fault_arm_always(const char *text)
{
	while (*text) {
		size_t n = strcspn(text, ":");
		char *end;

		if (n_always == ALWAYS_MAX || !n || n >= NAME_MAX_SIZE ||
			!text[n])
			return -1;
		memcpy(always[n_always].name, text, n);
		always[n_always].period =
			(unsigned)strtoul(text + n + 1, &end, 10);
		if (!always[n_always].period || (*end && *end != ','))
			return -1;
		n_always++;
		text = *end ? end + 1 : end;
	}
	return 0;
}

static bool
hits_again(const char *name)
{
	for (unsigned i = 0; i < n_always; i++)
		if (strcmp(always[i].name, name) == 0)
			return atomic_fetch_add(&always[i].passes, 1) %
				       always[i].period ==
			       always[i].period - 1;
	return false;
}

bool
fault_hits(const char *name)
{
	if (n_always && hits_again(name))
		return true;
	if (atomic_load_explicit(&left, memory_order_relaxed) == 0)
		return false;
	if (strcmp(name, armed_name) != 0)
		return false;
	return atomic_fetch_sub(&left, 1) == 1;
}
