/* A plugin that leaves all that makes unloading one dangerous: a thread of its
 * own, a destructor of thread-local data, a function for the end of the
 * process, a pending timer and a pending call. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eventd/plugin.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static pthread_t thread;
static sem_t asked, answered;
static _Atomic int pokes, destroyed, finish;

static void
on_destroy(void *value)
{
	(void)value;
	destroyed++;
}

static void
on_exit_of_process(void)
{
	pokes = 0;
}

static void *
run(void *arg)
{
	pthread_setspecific(key, arg); /* any value that is not NULL */
	while (sem_wait(&asked) == 0 && !finish) {
		pokes++;
		sem_post(&answered);
	}
	return NULL;
}

static void
set_up(void)
{
	sem_init(&asked, 0, 0);
	sem_init(&answered, 0, 0);
	if (pthread_key_create(&key, on_destroy) ||
		pthread_create(&thread, NULL, run, &pokes) ||
		atexit(on_exit_of_process))
		abort();
}

static int
start(struct evd_ctx *ctx, void **state)
{
	*state = NULL;
	pthread_once(&once, set_up);
	evd_ctx_delay(ctx, NULL, "tick", "", 0, 1000, 1000, NULL);
	return evd_ctx_call(ctx, "probe", "hold", "", 0, 60000, "held");
}

static int
answer(struct evd_ctx *ctx, const struct evd_message *m, int number)
{
	char text[16];

	snprintf(text, sizeof text, "%d", number);
	return evd_ctx_reply(ctx, m->call, 0, text, strlen(text));
}

/* The thread says how often. */
static int
on_poke(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	sem_post(&asked);
	sem_wait(&answered);
	return answer(ctx, m, pokes);
}

static int
on_finish(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)state;
	finish = 1;
	sem_post(&asked);
	pthread_join(thread, NULL);
	return answer(ctx, m, destroyed);
}

static int
on_other(struct evd_ctx *ctx, void *state, const struct evd_message *m)
{
	(void)ctx, (void)state, (void)m;
	return 0;
}

static const struct evd_handler handlers[] = {
	{"poke", on_poke},
	{"finish", on_finish},
	{"tick", on_other},
	{"held", on_other},
};

EVD_PLUGIN_EXPORT extern const struct evd_plugin eventd_plugin;
const struct evd_plugin eventd_plugin = {
	.abi = EVD_PLUGIN_ABI,
	.size = sizeof(struct evd_plugin),
	.name = "lively",
	.handlers = handlers,
	.n_handlers = sizeof handlers / sizeof handlers[0],
	.start = start,
};
