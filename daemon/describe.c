#include "describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "config.h"
#include "config_session.h"
#include "eventd/status.h"
#include "exec/loop.h"

struct describe {
	uv_work_t work;
	struct loop *loop;
	unsigned n_loops;
	char *file, *script, *plugin;
	struct session_spec *extra; /* what else the order says */
	void (*done)(void *arg, int status, const char *text,
		struct session_spec *spec);
	void *arg;
	/* what came of it */
	struct session_spec *spec;
	int status;
	char *text;
};

static void
describe_free(struct describe *d)
{
	spec_unref(d->spec);
	spec_unref(d->extra);
	free(d->file);
	free(d->script);
	free(d->plugin);
	free(d->text);
	free(d);
}

static struct describe *
describe_new(const struct session_order *order)
{
	struct describe *d = calloc(1, sizeof(*d));
	int r = 0;

	if (!d)
		return NULL;
	d->file = strdup(order->file);
	d->script = strdup(order->script);
	d->plugin = strdup(order->plugin);
	d->extra = spec_new();
	if (d->extra) {
		d->extra->if_taken = order->if_taken;
		d->extra->allow_replace = order->allow_replace;
	}
	if (!d->file || !d->script || !d->plugin || !d->extra)
		r = err_raise(-ENOMEM);
	for (size_t i = 0; i < order->n_aliases && !r; i++)
		r = spec_add_alias(d->extra, order->aliases[i]);
	for (size_t i = 0; i < order->n_params && !r; i++)
		r = spec_add_param(d->extra, order->keys[i], order->values[i]);
	if (!r)
		return d;
	describe_free(d);
	return NULL;
}

/* ---- in the pool --------------------------------------------------------- */

static void
refuse(struct describe *d, int status, const char *text)
{
	d->status = status;
	free(d->text);
	d->text = strdup(text);
	d->spec = spec_unref(d->spec);
}

/* "worker" of "/srv/worker.conf". */
static char *
name_of(const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	size_t size = strlen(name);

	if (size > 5 && strcmp(name + size - 5, ".conf") == 0)
		size -= 5;
	return strndup(name, size);
}

static void
read_file(struct describe *d)
{
	struct config_aliases aliases = {0};
	struct config_errors errors = {0};
	struct config_session s = {.aliases = &aliases, .n_loops = d->n_loops};
	char *name = name_of(d->file);
	int r = name ? config_session_read(d->file, name, &s, &errors)
		     : err_raise(-ENOMEM);

	d->spec = s.spec;
	config_aliases_check(&aliases, &errors);
	if (r) {
		refuse(d, EVD_STATUS_NO_MEMORY, "out of memory");
	} else if (config_errors_any(&errors)) {
		char *text = config_errors_text(&errors);

		refuse(d, EVD_STATUS_CONFIG, text ? text : "out of memory");
		free(text);
	}
	free(name);
	config_aliases_deinit(&aliases);
	config_errors_deinit(&errors);
}

/* The session's kind looks at it again when it starts. */
static void
check_program(struct describe *d, const char *path)
{
	char text[512];
	uint64_t size;
	int fd, r = config_open(path, &fd, &size);

	if (!r) {
		close(fd);
		return;
	}
	snprintf(text, sizeof(text), "%s cannot be used: %s", path,
		r == -EPERM    ? "anyone may write to it; chmod o-w it"
		: r == -EINVAL ? "it is not a regular file"
			       : strerror(-r));
	refuse(d, EVD_STATUS_CONFIG, text);
}

static void
make_spec(struct describe *d)
{
	const char *path = *d->script ? d->script : d->plugin;
	struct session_spec *spec = d->spec = spec_new();
	int r = 0;

	if (spec) {
		spec->kind = strdup(*d->script ? "lua" : "native");
		spec->name = strdup(strrchr(path, '/') + 1);
		spec->path = strdup(path);
		spec->if_taken = d->extra->if_taken;
		spec->allow_replace = d->extra->allow_replace;
	}
	if (!spec || !spec->kind || !spec->name || !spec->path)
		r = err_raise(-ENOMEM);
	for (size_t i = 0; i < d->extra->n_aliases && !r; i++)
		r = spec_add_alias(spec, d->extra->aliases[i]);
	if (r)
		refuse(d, EVD_STATUS_NO_MEMORY, "out of memory");
	else
		check_program(d, path);
}

static void
on_work(uv_work_t *work)
{
	struct describe *d = container_of(work, struct describe, work);

	if (*d->file)
		read_file(d);
	else
		make_spec(d);
	for (size_t i = 0; i < d->extra->n_params && d->spec; i++)
		if (spec_add_param(d->spec, d->extra->params[i].key,
			    d->extra->params[i].value))
			refuse(d, EVD_STATUS_NO_MEMORY, "out of memory");
}

/* ---- back on the loop ---------------------------------------------------- */

static void
on_done(uv_work_t *work, int status)
{
	struct describe *d = container_of(work, struct describe, work);

	if (status || d->loop->sched.closing)
		refuse(d, EVD_STATUS_UNAVAILABLE, "eventd stops");
	d->done(d->arg, d->status, d->text, TAKE(d->spec));
	describe_free(d);
}

void
describe_start(struct loop *l, unsigned n_loops,
	const struct session_order *order,
	void (*done)(void *arg, int status, const char *text,
		struct session_spec *spec),
	void *arg)
{
	struct describe *d = describe_new(order);

	if (d) {
		d->loop = l;
		d->n_loops = n_loops;
		d->done = done;
		d->arg = arg;
		if (!uv_queue_work(&l->uv, &d->work, on_work, on_done))
			return;
		describe_free(d);
	}
	done(arg, EVD_STATUS_NO_MEMORY, "out of memory", NULL);
}
