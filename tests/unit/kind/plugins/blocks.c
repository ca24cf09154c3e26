/* A plugin whose handlers hold up their thread: for a time, for ever, or until
 * a helper that they start has ended. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "eventd/plugin.h"

/* The payload is milliseconds. */
static int
on_nap(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	poll(NULL, 0, atoi(m->data));
	evd_ctx_reply(ctx, m->call, 0, m->data, m->size);
	return 0;
}

__attribute__((noinline)) static void
block_for_ever(void)
{
	for (;;)
		poll(NULL, 0, -1);
}

static int
on_block(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)ctx, (void)state, (void)m;
	block_for_ever();
	return 0;
}

/* What the shell that runs the payload prints. */
static int
on_shell(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	char text[4096];
	FILE *out = popen(m->data, "r");
	size_t n;

	(void)state;
	if (!out)
		return -errno;
	n = fread(text, 1, sizeof(text), out);
	if (pclose(out) != 0)
		return -ECHILD;
	evd_ctx_reply(ctx, m->call, 0, text, n);
	return 0;
}

/* A child that goes on in a copy of the daemon and takes memory there. */
static int
on_fork(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	pid_t child = fork();
	int status = 0;

	(void)state;
	if (child < 0)
		return -errno;
	if (child == 0) {
		for (size_t size = 16; size < 1 << 20; size *= 2)
			free(memset(malloc(size), 'x', size));
		_exit(7);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	evd_ctx_reply(ctx, m->call, 0,
		WIFEXITED(status) && WEXITSTATUS(status) == 7 ? "7" : "?", 1);
	return 0;
}

static const struct evd_handler handlers[] = {
	{"nap", on_nap},
	{"block", on_block},
	{"shell", on_shell},
	{"fork", on_fork},
};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "blocks",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof handlers[0],
};
