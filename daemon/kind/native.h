#pragma once
/* One native session: its plugin's state and what it holds of the kernel.
 * The home's thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/log.h"
#include "eventd/plugin.h"
#include "kernel/session.h"
#include "kind/deferred.h"
#include "kind/native_image.h"

struct sched;

/* What a plugin sees as struct evd_ctx. */
struct native {
	const struct evd_host *host; /* first, see struct evd_ctx_head */
	struct session *session;
	struct sched *sched;
	const struct native_image *image;
	void *state;             /* the plugin's */
	struct msg *current;     /* being handled */
	struct native_ref *refs; /* number handed out - 1 */
	uint32_t n_refs, max_refs;
	bool started;
	struct list targets; /* struct evd_target */
	struct list calls;   /* struct native_call: no reply yet */
	struct deferred deferred;
	struct log_site log; /* its own allowance of log lines */
};

/* A reference to a handler: name and, once the holder is known and native on
 * this thread, the holder's own index for it. */
struct native_ref {
	const struct evd_target *target;
	uint64_t holder;   /* whose index it is; 0: not known */
	const char *event; /* the holder's image's string, or own */
	char *own;
	uint16_t index; /* + 1; 0: by name */
	uint8_t size;
};

/* A call that waits for its reply, which comes as an event of ours. */
struct native_call {
	struct list link;
	uint8_t size;
	char event[];
};

extern const struct evd_host native_host;
/* native_ties.c: of the host. */
int native_watch(struct evd_ctx *ctx, const struct evd_watch_args *watch,
	uint64_t *number);
int native_unwatch(struct evd_ctx *ctx, uint64_t number);
int native_unlink(struct evd_ctx *ctx, uint64_t session);
int native_trap(struct evd_ctx *ctx, int on);

/* The running native session @id if it lives on the scheduler of @n. */
struct native *native_find(struct native *n, uint64_t id);
/* All that @n holds of the kernel. */
void native_host_deinit(struct native *n);
