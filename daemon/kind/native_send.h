#pragma once
/* Sending of native sessions beside the plain way, and what they put aside:
 * functions of the host. The home's thread. */
#include "kind/native.h"

struct answers;

/* Questions to many that are not answered. */
struct native_gather {
	struct list link; /* in native.gathers */
	struct answers *answers;
	struct native_task *task; /* that waits; NULL: it comes as an event */
	char *event;              /* of ours, when it is over */
	char **aliases;           /* as many as answers */
};

/* The message that @args, of the plugin's size, tell; copied to @own. */
int native_make(struct native *n, const struct evd_send_args *args,
	struct evd_send_args *own, struct msg **out);
int native_send(struct evd_ctx *ctx, const struct evd_send_args *args);
int native_ask(
	struct evd_ctx *ctx, const struct evd_send_args *args, uint64_t *call);
/* Post @m, which it takes, with args->level; the outcome has @token. */
int native_post_of(struct native *n, const struct evd_send_args *args,
	struct msg *m, uint64_t token, uint64_t *id);
int native_post_level(
	struct evd_ctx *ctx, const struct evd_send_args *args, uint64_t *call);
int native_cancel_call(struct evd_ctx *ctx, uint64_t call);
int native_forward(struct evd_ctx *ctx, const struct evd_send_args *args);
int native_gather(struct evd_ctx *ctx, const struct evd_send_args *args);
int native_answer(struct evd_ctx *ctx, size_t i, struct evd_ctx_answer *answer);
const void *native_header(struct evd_ctx *ctx, const char *name, size_t *size);
int native_stash(struct evd_ctx *ctx);
int native_unstash(struct evd_ctx *ctx);
void native_become(
	struct evd_ctx *ctx, const struct evd_handler *handlers, size_t n);

/* Ask them all: *@out stands in native.gathers, and may be over already. */
int native_gather_begin(struct native *n, const struct evd_send_args *args,
	bool waits, struct native_gather **out);
/* A reply to one of many came: those that it is one of, if that was all. */
struct native_gather *native_gather_take(
	struct native *n, uint64_t token, const struct msg *reply);
void native_gather_free(struct native_gather *g);
void native_send_deinit(struct native *n);
