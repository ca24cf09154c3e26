#pragma once
/* eventctl post: one event, or one for each record of the input. One
 * thread. */
#include "ctl.h"
#include "later.h"
#include "payload.h"

struct post {
	const char *alias, *event; /* borrowed */
	const char *level;         /* its name */
	struct evd_post_options opt;
	struct headers headers;
	struct payload payload;
};

/* Post every record of the payload; the exit code. */
int post_stream(struct post *post, struct ctl *ctl);
