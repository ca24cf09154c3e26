#pragma once
/* Native images: shared objects loaded for native sessions, one per content.
 *
 * An object is loaded from a private copy in memory, so that overwriting the
 * file changes nothing that runs; a file with new content is a new image. An
 * image is never unmapped: nobody can prove that no thread, destructor or
 * pointer of it is left. The price is its size per version loaded.
 *
 * The list of images is the process's, as the loader's own is. Any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "eventd/plugin.h"

struct native_slot {
	const char *event;
	uint32_t hash;
	uint16_t index; /* of the handler + 1; 0: free */
	uint8_t size;
	/* Of an accepted message for it; without the handler's index if it has
	 * a name that others may not use. */
	uint64_t brief;
	const struct native_image *image;
};

struct native_image {
	struct native_image *next;
	const struct evd_plugin *plugin; /* NULL: refused, see error */
	uint64_t hash;
	size_t size;
	int fd; /* of the copy; its number is the loader's name */
	/* The plugin's, for a shortcut; none if some may wait. */
	const struct evd_handler *handlers;
	size_t n_handlers;
	struct native_slot *slots;     /* handlers by name, open addressing */
	bool waits;                    /* some of its handlers may */
	bool all_wait;                 /* all may, and start() */
	const evd_handler_fn *waiting; /* else these */
	size_t n_waiting;
	uintptr_t code, code_end; /* where its code is mapped */
	uint32_t mask;
	char error[256];
};

/**
 * native_image_get() - load the plugin at @path, or find it loaded
 * @error: on failure, why, in @error_size bytes
 *
 * Blocks while it reads the file.
 *
 * Return: the image, good for ever, or NULL.
 */
const struct native_image *native_image_get(
	const char *path, char *error, size_t error_size);
/* The same, but the file is not looked at again if this thread has found this
 * image at the same @moment, which is not 0: the sessions that start together
 * are of one image. */
const struct native_image *native_image_get_at(
	const char *path, uint64_t moment, char *error, size_t error_size);
/* The slot of the handler of @event, NULL: it has none. */
const struct native_slot *native_image_slot(
	const struct native_image *image, const char *event, size_t size);
/* Its index + 1, 0: it has none. */
uint16_t native_image_find(
	const struct native_image *image, const char *event, size_t size);
/* May @fn, a handler, wait? Asked only if some may. */
bool native_image_waits(const struct native_image *image, evd_handler_fn fn);
/* Does @pc lie in its code? In signal handlers, too. */
bool native_image_has(const struct native_image *image, const void *pc);
/* How many are mapped. */
size_t native_images(void);
