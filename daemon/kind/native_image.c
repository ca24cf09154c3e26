#include "kind/native_image.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "kernel/msg.h"
#include "kind/native_check.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* What a path held when it was last loaded; one look at the file then tells
 * whether it must be read again. */
struct seen {
	struct seen *next;
	const struct native_image *image;
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec ctime;
};

/* The process's, as dlopen()'s is. */
static struct {
	pthread_mutex_t lock;
	struct native_image *images;
	struct seen *seen;
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- handlers by name -------------------------------------------------- */

/* By the size, the first and the last eight bytes: enough to spread the few
 * handlers of a plugin. */
static inline uint32_t
hash_event(const char *event, size_t size)
{
	uint64_t head = hash_load(event, size);
	uint64_t tail = size > 8 ? hash_load(event + size - 8, 8) : size;
	uint64_t hash = (head ^ size) * 0x9e3779b97f4a7c15ull +
			tail * 0xc2b2ae3d27d4eb4full;

	return (uint32_t)(hash >> 32);
}

const struct native_slot *
native_image_slot(
	const struct native_image *image, const char *event, size_t size)
{
	uint32_t hash = hash_event(event, size);

	for (uint32_t i = hash;; i++) {
		const struct native_slot *slot = &image->slots[i & image->mask];

		if (!slot->index)
			return NULL;
		if (slot->hash == hash && slot->size == size &&
			memcmp(slot->event, event, size) == 0)
			return slot;
	}
}

uint16_t
native_image_find(
	const struct native_image *image, const char *event, size_t size)
{
	const struct native_slot *slot = native_image_slot(image, event, size);

	return slot ? slot->index : 0;
}

static void
slot_fill(struct native_image *image, uint16_t index)
{
	const char *event = image->plugin->handlers[index - 1].event;
	size_t size = strlen(event);
	uint32_t hash = hash_event(event, size), i = hash;
	struct msg as_if = {
		.flags = MSG_ADMITTED, .handler = event[0] == '_' ? 0 : index};

	while (image->slots[i & image->mask].index)
		i++;
	as_if.event_size = (uint8_t)size;
	image->slots[i & image->mask] = (struct native_slot){
		.event = event,
		.hash = hash,
		.index = index,
		.size = (uint8_t)size,
		.brief = as_if.brief,
		.image = image,
	};
}

/* NULL, or why it cannot be. */
static const char *
index_handlers(struct native_image *image)
{
	const struct evd_plugin *p = image->plugin;
	uint32_t n = 4;

	while (n < p->n_handlers * 2)
		n *= 2;
	image->slots = calloc(n, sizeof(*image->slots));
	if (!image->slots)
		return "out of memory";
	image->mask = n - 1;
	image->handlers = p->handlers;
	image->n_handlers = image->waits ? 0 : p->n_handlers;
	for (size_t i = 0; i < p->n_handlers; i++) {
		const char *event = p->handlers[i].event;

		if (native_image_find(image, event, strlen(event))) {
			snprintf(image->error, sizeof(image->error),
				"two handlers for the event %s", event);
			return image->error;
		}
		slot_fill(image, (uint16_t)(i + 1));
	}
	return NULL;
}

/* ---- waiting ----------------------------------------------------------- */

/* Older tables are smaller. */
static void
note_waiting(struct native_image *image, size_t size)
{
	const struct evd_plugin *p = image->plugin;

	if (p->size < size)
		size = p->size;
	if (size < offsetof(struct evd_plugin, n_waiting) + sizeof(size_t))
		return;
	image->all_wait = p->flags & EVD_PLUGIN_WAITS;
	image->waiting = p->waiting;
	image->n_waiting = p->waiting ? p->n_waiting : 0;
	image->waits = image->all_wait || image->n_waiting;
}

bool
native_image_waits(const struct native_image *image, evd_handler_fn fn)
{
	if (image->all_wait)
		return true;
	for (size_t i = 0; i < image->n_waiting; i++)
		if (image->waiting[i] == fn)
			return true;
	return false;
}

static void
note_code(struct native_image *image, const struct dl_phdr_info *info,
	const ElfW(Phdr) * segment)
{
	uintptr_t from = info->dlpi_addr + segment->p_vaddr;

	if (!(segment->p_flags & PF_X))
		return;
	image->code = from;
	image->code_end = from + segment->p_memsz;
}

/* The object that holds the table. */
static int
find_code(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct native_image *image = arg;
	uintptr_t table = (uintptr_t)image->plugin;
	bool is_it = false;

	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && table >= from &&
			table - from < segment->p_memsz)
			is_it = true;
	}
	for (size_t i = 0; is_it && i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			note_code(image, info, &info->dlpi_phdr[i]);
	return is_it;
}

bool
native_image_has(const struct native_image *image, const void *pc)
{
	uintptr_t at = (uintptr_t)pc;

	return at >= image->code && at < image->code_end;
}

/* ---- loading ----------------------------------------------------------- */

/* The loader names the file as it was told to; our name for it is better. */
static const char *
loader_error(void)
{
	const char *error = dlerror(), *text;

	if (!error)
		return "the loader gives no reason";
	text = strstr(error, ": ");
	return strncmp(error, "/proc/self/fd/", 14) == 0 && text ? text + 2
								 : error;
}

static const char *
find_table(struct native_image *image, void *handle)
{
	void *table = dlsym(handle, EVD_PLUGIN_SYMBOL);
	const ElfW(Sym) *symbol = NULL;
	const char *why;
	Dl_info info;

	if (!table)
		return "no symbol " EVD_PLUGIN_SYMBOL;
	if (!dladdr1(table, &info, (void **)&symbol, RTLD_DL_SYMENT) ||
		!symbol || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT)
		return EVD_PLUGIN_SYMBOL " is not a table";
	image->plugin = table;
	why = native_check_table(image->plugin, symbol->st_size, image->error,
		sizeof(image->error));
	if (!why)
		note_waiting(image, symbol->st_size);
	if (!why && image->waits)
		dl_iterate_phdr(find_code, image);
	return why;
}

/* Its constructors have run whatever comes of it, so it stays. */
static const char *
load(struct native_image *image)
{
	char name[32];
	void *handle;
	const char *why;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", image->fd);
	handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return loader_error();
	why = find_table(image, handle);
	return why ? why : index_handlers(image);
}

/* ---- the copy ---------------------------------------------------------- */

static int
memory_file(void)
{
	int fd = memfd_create(
		"eventd-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 all are executable */
		fd = memfd_create(
			"eventd-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

static bool
write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data += n;
		size -= (size_t)n;
	}
	return true;
}

/* Read to the end even if the file changes its size meanwhile. */
static bool
copy_all(int from, int to, size_t most)
{
	char buffer[65536];
	size_t total = 0;
	ssize_t n;

	for (;;) {
		n = read(from, buffer, sizeof(buffer));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		total += (size_t)n;
		if (total > most || !write_all(to, buffer, (size_t)n)) {
			errno = total > most ? EFBIG : errno;
			return false;
		}
	}
}

static uint64_t
hash_image(const unsigned char *data, size_t size)
{
	uint64_t hash = 14695981039346656037ull, word;

	for (; size >= 8; data += 8, size -= 8) {
		memcpy(&word, data, 8);
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	for (; size; data++, size--)
		hash = (hash ^ *data) * 1099511628211ull;
	return hash;
}

static bool
is_same(const struct native_image *image, const void *data)
{
	void *other =
		mmap(NULL, image->size, PROT_READ, MAP_SHARED, image->fd, 0);
	bool same;

	if (other == MAP_FAILED)
		return false;
	same = memcmp(other, data, image->size) == 0;
	munmap(other, image->size);
	return same;
}

static struct native_image *
find_content(uint64_t hash, const void *data, size_t size)
{
	for (struct native_image *i = the.images; i; i = i->next)
		if (i->hash == hash && i->size == size && is_same(i, data))
			return i;
	return NULL;
}

/* An image of the copy @fd, which it takes; refused ones are kept as well, so
 * that a session that is started again and again loads them once. */
static struct native_image *
image_new(int fd, const void *data, size_t size, uint64_t hash)
{
	struct native_image *image = calloc(1, sizeof(*image));
	const char *why;

	if (!image)
		return NULL;
	image->fd = fd;
	image->hash = hash;
	image->size = size;
	why = native_check_elf(data, size);
	if (!why)
		why = load(image);
	if (why) {
		image->plugin = NULL;
		if (why != image->error)
			snprintf(image->error, sizeof(image->error), "%s", why);
	}
	image->next = the.images;
	the.images = image;
	return image;
}

static struct native_image *
image_of_copy(int fd)
{
	struct native_image *image;
	struct stat st;
	uint64_t hash;
	void *data;

	if (fstat(fd, &st) != 0 || !st.st_size) {
		errno = EINVAL;
		return NULL;
	}
	fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED)
		return NULL;
	hash = hash_image(data, (size_t)st.st_size);
	image = find_content(hash, data, (size_t)st.st_size);
	if (image)
		close(fd);
	else
		image = image_new(fd, data, (size_t)st.st_size, hash);
	munmap(data, (size_t)st.st_size);
	return image;
}

static struct native_image *
image_of_file(int file, char *error, size_t error_size)
{
	struct native_image *image = NULL;
	int copy = memory_file();

	if (copy < 0) {
		snprintf(error, error_size, "no memory file: %s",
			strerror(errno));
		return NULL;
	}
	if (!copy_all(file, copy, (size_t)256 << 20))
		snprintf(error, error_size, "cannot be read: %s",
			strerror(errno));
	else if (!(image = image_of_copy(copy)))
		snprintf(error, error_size, "cannot be loaded: %s",
			errno == EINVAL ? "the file is empty"
					: strerror(errno));
	if (!image)
		close(copy);
	return image;
}

/* ---- files seen before ------------------------------------------------- */

/* A change within the clock's tick of the last one may leave ctime as it was,
 * so a file that has just been changed is read again. */
static bool
is_settled(const struct stat *st)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec > st->st_ctim.tv_sec + 1;
}

static struct seen *
seen_find(const struct stat *st)
{
	for (struct seen *s = the.seen; s; s = s->next)
		if (s->dev == st->st_dev && s->ino == st->st_ino)
			return s;
	return NULL;
}

static bool
seen_is_current(const struct seen *s, const struct stat *st)
{
	return s->size == st->st_size &&
	       s->ctime.tv_sec == st->st_ctim.tv_sec &&
	       s->ctime.tv_nsec == st->st_ctim.tv_nsec;
}

static void
remember(const struct stat *st, const struct native_image *image)
{
	struct seen *s = seen_find(st);

	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return; /* it is read again next time */
		s->next = the.seen;
		the.seen = s;
	}
	s->image = image;
	s->dev = st->st_dev;
	s->ino = st->st_ino;
	s->size = st->st_size;
	s->ctime = st->st_ctim;
}

/* Why a file of this owner and mode is not loaded, in @error; or NULL. */
static const char *
check_owner(const struct stat *st, char *error, size_t error_size)
{
	const char *why = native_check_owner(st, error, error_size);

	if (why && why != error)
		snprintf(error, error_size, "%s", why);
	return why;
}

/* The image of a file that is as it was when it was last read. */
static const struct native_image *
find_unchanged(const char *path, char *error, size_t error_size)
{
	const struct seen *seen;
	struct stat st;

	if (stat(path, &st) != 0 || check_owner(&st, error, error_size))
		return NULL;
	seen = seen_find(&st);
	return seen && is_settled(&st) && seen_is_current(seen, &st)
		       ? seen->image
		       : NULL;
}

static const struct native_image *
read_image(int file, char *error, size_t error_size)
{
	const struct native_image *image;
	struct stat st;

	if (fstat(file, &st) != 0) {
		snprintf(error, error_size, "%s", strerror(errno));
		return NULL;
	}
	if (check_owner(&st, error, error_size))
		return NULL;
	image = image_of_file(file, error, error_size);
	if (image)
		remember(&st, image);
	return image;
}

static const struct native_image *
get_locked(const char *path, char *error, size_t error_size)
{
	const struct native_image *image =
		find_unchanged(path, error, error_size);
	int file;

	if (image)
		return image;
	file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file < 0) {
		snprintf(error, error_size, "%s", strerror(errno));
		return NULL;
	}
	image = read_image(file, error, error_size);
	close(file);
	return image;
}

const struct native_image *
native_image_get(const char *path, char *error, size_t error_size)
{
	const struct native_image *image;

	pthread_mutex_lock(&the.lock);
	image = get_locked(path, error, error_size);
	pthread_mutex_unlock(&the.lock);
	if (image && !image->plugin) {
		snprintf(error, error_size, "%s", image->error);
		return NULL;
	}
	return image;
}

const struct native_image *
native_image_get_at(
	const char *path, uint64_t moment, char *error, size_t error_size)
{
	static _Thread_local struct {
		uint64_t moment;
		const struct native_image *image;
		char path[PATH_MAX];
	} last;
	const struct native_image *image;

	if (last.image && moment && moment == last.moment &&
		strcmp(last.path, path) == 0)
		return last.image;
	image = native_image_get(path, error, error_size);
	last.image = NULL;
	if (image && strlen(path) < sizeof(last.path)) {
		last.image = image;
		last.moment = moment;
		strcpy(last.path, path);
	}
	return image;
}

size_t
native_images(void)
{
	size_t n = 0;

	pthread_mutex_lock(&the.lock);
	for (const struct native_image *i = the.images; i; i = i->next)
		n++;
	pthread_mutex_unlock(&the.lock);
	return n;
}
