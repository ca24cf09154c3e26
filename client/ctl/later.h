#pragma once
/* What post and delay share: headers, and events that are due later. One
 * thread. */
#include <stddef.h>

#include <eventd/client.h>

struct ctl;

struct headers {
	struct evd_header *at; /* owned; names owned, values borrowed */
	size_t n;
};

/* From --header. 0, or the exit code of an error that has been told. Free them
 * in any case. */
int headers_init(struct headers *h, struct ctl *ctl);
void headers_deinit(struct headers *h);

/* --priority and --ttl. 0, or the exit code of an error that has been told. */
int send_options(struct ctl *ctl, uint32_t *priority, uint32_t *ttl_ms);

/* The value @text of --at. 0, or the exit code. */
int later_parse_at(struct ctl *ctl, const char *text, int64_t *at_ns);
/* Send an event later, by --in, --at or --on; the exit code. */
int later_run(struct ctl *ctl);
