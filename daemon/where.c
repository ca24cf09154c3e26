#include "where.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <string.h>

#include "kernel/session.h"
#include "kernel/spec.h"

void
where_init(void)
{
	void *frame;

	(void)backtrace(&frame, 1); /* what it loads is loaded now */
}

/* The first frames are those of the signal, up to @pc, which it interrupted. */
void
where_answer(const struct session *s, struct stall *st, const void *pc)
{
	bool stops = s->spec->on_stall == STALL_STOP;
	int n, first = 0;

	if ((s->ops->stalled && s->ops->stalled(s, st, stops)) ||
		!stall_begin(st))
		return;
	n = backtrace(st->frames, STALL_FRAMES);
	while (first < n && st->frames[first] != pc)
		first++;
	first = first < n ? first : 0;
	memmove(st->frames, st->frames + first,
		(size_t)(n - first) * sizeof(*st->frames));
	st->n_frames = n - first;
	stall_end(st);
}

const char *
where_base(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path ? path : "?";
}

/* Plugins are loaded from a descriptor that was checked: /proc/self/fd/N. */
static bool
is_of_plugin(const Dl_info *info)
{
	return info->dli_fname && strstr(info->dli_fname, "/proc/self/fd/");
}

size_t
where_frame(const char *program, const void *pc, char *text, size_t size,
	bool *is_plugin)
{
	const char *at = pc;
	Dl_info info;
	int n;

	if (!dladdr(pc, &info))
		memset(&info, 0, sizeof(info));
	*is_plugin = is_of_plugin(&info);
	n = snprintf(text, size, "%s(%s+0x%tx)",
		where_base(*is_plugin ? program : info.dli_fname),
		info.dli_sname ? info.dli_sname : "",
		at - (const char *)(info.dli_sname ? info.dli_saddr
						   : info.dli_fbase));
	return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

/* Functions with their offsets, or those of the program, the innermost first,
 * up to what called the plugin. */
static void
frames_text(const struct stall *st, const char *program, char text[STALL_TEXT])
{
	size_t n = 0, end = 0;
	bool plugin;

	for (int i = 0; i < st->n_frames && n < STALL_TEXT - 3; i++) {
		if (n)
			n += (size_t)sprintf(text + n, "; ");
		n += where_frame(program, st->frames[i], text + n,
			STALL_TEXT - n, &plugin);
		if (plugin)
			end = n;
	}
	if (end)
		text[end] = '\0';
}

void
where_text(struct stall *st, const char *program, unsigned ms,
	char text[STALL_TEXT])
{
	size_t n = 0;

	text[0] = '\0';
	if (!stall_wait(st, ms))
		return;
	if (st->n_frames)
		frames_text(st, program, text);
	for (const char *p = st->text; *p && n < STALL_TEXT - 2; p++) {
		if (*p == '\n' && n)
			text[n++] = ';';
		if (*p != '\n' && (*p != '\t' || n))
			text[n++] = *p == '\t'                ? ' '
				    : *p == '"' || *p == '\\' ? '\''
							      : *p;
	}
	if (n)
		text[n] = '\0';
}
