#pragma once
/* For tests: a directory of configuration files that goes away again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct files {
	char root[64];
};

static inline void
files_make(struct files *f)
{
	strcpy(f->root, "/tmp/eventd-config-XXXXXX");
	if (!mkdtemp(f->root))
		abort();
}

static inline void
files_remove(struct files *f)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", f->root);
	if (system(command) != 0)
		abort();
}

/* The path of @name below the root, in one of some buffers in turn. */
static inline const char *
files_path(struct files *f, const char *name)
{
	static char paths[8][512];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", f->root, name);
	return path;
}

/* Write @size bytes to @name, whose directories are made. */
static inline const char *
files_put_bytes(
	struct files *f, const char *name, const void *data, size_t size)
{
	char path[512];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s", f->root, name);
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	out = fopen(path, "w");
	if (!out || (size && fwrite(data, size, 1, out) != 1) || fclose(out))
		abort();
	return files_path(f, name);
}

static inline const char *
files_put(struct files *f, const char *name, const char *text)
{
	return files_put_bytes(f, name, text, strlen(text));
}
