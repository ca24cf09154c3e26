/* Scripts as files: found beside the session's script and in the shared
 * directory, read whole, compiled as text only, since the virtual machine
 * trusts bytecode. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kind/lua_session.h"
#include "proto/envelope.h"

#ifndef EVENTD_LUA_DIR
#define EVENTD_LUA_DIR "/usr/share/eventd/lua"
#endif

enum { SCRIPT_MAX = 4 << 20, NAME_MAX_ = 255 };

/* ---- where ------------------------------------------------------------- */

static bool
name_stays_below(const char *name)
{
	if (!name_is_valid(name, strlen(name), NAME_MAX_) || *name == '/')
		return false;
	for (const char *p = name; (p = strstr(p, "..")); p++)
		if ((p == name || p[-1] == '/') && (!p[2] || p[2] == '/'))
			return false;
	return true;
}

bool
lua_path_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

void
lua_push_path(lua_State *L, const char *name)
{
	struct lua_session *ls = lua_session_peek(L);
	const char *slash = strrchr(ls->path, '/');

	if (!name_stays_below(name))
		luaL_error(L, "'%s' is not a file below the script's directory",
			name);
	lua_pushlstring(
		L, ls->path, slash ? (size_t)(slash + 1 - ls->path) : 0);
	lua_pushstring(L, name);
	lua_concat(L, 2);
	if (lua_path_exists(lua_tostring(L, -1)))
		return;
	lua_pushfstring(L, "%s/%s", EVENTD_LUA_DIR, name);
	if (lua_path_exists(lua_tostring(L, -1)))
		lua_remove(L, -2);
	else
		lua_pop(L, 1);
}

/* ---- reading ----------------------------------------------------------- */

/* NULL, or why @path cannot be read, as errno has it if that is 0. */
static const char *
check_file(const char *path, size_t *size)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "not a regular file";
	if (st.st_size > SCRIPT_MAX)
		return "larger than 4 MiB";
	*size = (size_t)st.st_size;
	return NULL;
}

/* Up to @size + 1 bytes: more than @size say that the file has grown. */
static const char *
read_file(const char *path, char *data, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t n = 0;
	ssize_t r = 1;

	if (fd < 0)
		return strerror(errno);
	while (r > 0 && n <= *size) {
		r = read(fd, data + n, *size + 1 - n);
		if (r < 0 && errno == EINTR)
			r = 1;
		else if (r > 0)
			n += (size_t)r;
	}
	close(fd);
	if (r < 0)
		return strerror(errno);
	if (n > *size)
		return "it changes while it is read";
	*size = n;
	return NULL;
}

/* As luaL_loadfile(): a first line for the shell is none for Lua. */
static const char *
skip_shebang(const char *data, size_t *size)
{
	const char *end =
		*size && *data == '#' ? memchr(data, '\n', *size) : data;

	if (!end)
		end = data + *size;
	*size -= (size_t)(end - data);
	return end;
}

void
lua_load_path(lua_State *L, const char *path)
{
	const char *why, *text;
	size_t size = 0;
	char *data;

	why = check_file(path, &size);
	if (why)
		luaL_error(L, "script %s: %s", path, why);
	data = lua_newuserdatauv(L, size + 1, 0);
	why = read_file(path, data, &size);
	if (why)
		luaL_error(L, "script %s: %s", path, why);
	text = skip_shebang(data, &size);
	lua_pushfstring(L, "@%s", path);
	if (luaL_loadbufferx(L, text, size, lua_tostring(L, -1), "t"))
		lua_error(L);
	lua_replace(L, -3); /* the data */
	lua_pop(L, 1);
}
