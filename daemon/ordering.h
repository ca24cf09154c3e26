#pragma once
/* Ordering: which session files' sessions start after which. After= names
 * files or aliases; in a group of which some member has Order=, each starts
 * after the one before it, in that order and then by name. Any thread. */
#include <stddef.h>

#include "kernel/gate.h"

struct config_errors;
struct session_spec;

/* Edges between places of @specs, some of which may be NULL: those are left
 * out. *@edges is the caller's to free. 0 or -ENOMEM. */
int ordering_edges(struct session_spec *const *specs, size_t n,
	struct start_edge **edges, size_t *n_edges);
/* Tell of names in After= that no file has, and of sessions that wait for each
 * other. 0 or -ENOMEM. */
int ordering_check(struct session_spec *const *specs, size_t n,
	struct config_errors *errors);
