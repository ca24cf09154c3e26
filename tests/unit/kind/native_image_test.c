/* Loading plugins: which files are refused and why, and that a file which is
 * overwritten while it runs harms nobody (B97, B98). */
#include "rig.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "kind/native_image.h"

static void
copy(struct rig *rig, const char *name, const char *to)
{
	char *path = rig_path(rig, to), command[512];

	snprintf(command, sizeof(command), "cat '%s/%s' >'%s'", PLUGIN_DIR,
		name, path);
	assert_int_equal(system(command), 0);
	assert_int_equal(chmod(path, 0644), 0);
	free(path);
}

static struct session *
start(struct rig *rig, const char *file)
{
	return rig_start(rig, rig_spec(rig, "native", "a", file));
}

static void
expect_refused(struct rig *rig, const char *file, const char *text)
{
	struct session *s = start(rig, file);

	rig_expect_failed(s, text);
	session_stop(s);
	rig_turn(rig);
}

static void
test_bad_plugins_are_refused(void **state)
{
	static const char *const bad[][2] = {
		{"wrong_abi.so", "wrong_abi.so: ABI 7, this eventd speaks 1"},
		{"wrong_size.so", "eventd_plugin has 8 bytes, ABI 1 needs "},
		{"no_symbol.so", "no_symbol.so: no symbol eventd_plugin"},
		{"function_symbol.so", "eventd_plugin is not a table"},
		{"undefined_symbol.so", "undefined symbol: nobody_has_this"},
		{"bad_name.so", "handler 0 has no function or no valid event"},
		{"no_function.so", "handler 0 has no function or no valid"},
		{"twice.so", "two handlers for the event x"},
	};
	char path[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", PLUGIN_DIR, bad[i][0]);
		expect_refused(*state, path, bad[i][1]);
		expect_refused(*state, path, bad[i][1]); /* remembered */
	}
}

static void
test_files_that_are_no_plugins(void **state)
{
	struct rig *rig = *state;
	char *fifo = rig_path(rig, "fifo");

	rig_write(rig, "text.so", "this is text", 12);
	rig_write(rig, "empty.so", "", 0);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	free(fifo);
	expect_refused(rig, "none.so", "none.so: No such file or directory");
	expect_refused(rig, "text.so", "not a shared object (no ELF file)");
	expect_refused(rig, "empty.so", "the file is empty");
	expect_refused(rig, "fifo", "not a regular file");
	expect_refused(rig, "/tmp", "not a regular file");
	expect_refused(rig, "/proc/self/exe", "");
}

/* The loader would fault on it. */
static void
test_truncated_files(void **state)
{
	struct rig *rig = *state;
	char *path = rig_path(rig, "cut.so");
	struct stat st;

	copy(rig, "good.so", "cut.so");
	assert_int_equal(stat(path, &st), 0);
	for (off_t size = st.st_size - 1; size > 0; size = size * 3 / 4) {
		struct session *s;

		copy(rig, "good.so", "cut.so");
		assert_int_equal(truncate(path, size), 0);
		s = start(rig, "cut.so");
		/* section headers alone may be cut off */
		if (s->life != SESSION_UP)
			rig_expect_failed(s, "cut.so: ");
		if (size < 1000)
			assert_int_equal(s->life, SESSION_FAILED);
		session_stop(s);
		rig_turn(rig);
	}
	free(path);
}

static void
test_files_that_others_can_write_are_refused(void **state)
{
	struct rig *rig = *state;
	char *path = rig_path(rig, "p.so");

	copy(rig, "version1.so", "p.so");
	assert_int_equal(chmod(path, 0664), 0);
	expect_refused(rig, "p.so", "mode 0664 lets others write to it");
	assert_int_equal(chmod(path, 0646), 0);
	expect_refused(rig, "p.so", "mode 0646 lets others write to it");
	assert_int_equal(chmod(path, 0644), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 65534, 65534), 0);
		expect_refused(rig, "p.so", "owned by uid 65534");
	}
	free(path);
}

static void
test_sessions_of_one_content_share_an_image(void **state)
{
	struct rig *rig = *state;
	char error[256], *one, *two;
	const struct native_image *image;
	size_t before;

	copy(rig, "version1.so", "one.so");
	copy(rig, "version1.so", "two.so");
	one = rig_path(rig, "one.so");
	two = rig_path(rig, "two.so");
	image = native_image_get(one, error, sizeof(error));
	assert_non_null(image);
	before = native_images();
	assert_ptr_equal(native_image_get(one, error, sizeof(error)), image);
	assert_ptr_equal(native_image_get(two, error, sizeof(error)), image);
	assert_int_equal(native_images(), before);
	free(one);
	free(two);
}

static void
test_overwriting_the_file_harms_nobody(void **state)
{
	struct rig *rig = *state;
	struct session *s;
	char *path = rig_path(rig, "p.so");

	copy(rig, "version1.so", "p.so");
	s = start(rig, "p.so");
	rig_expect(rig, "a", "version", "", "1");
	assert_int_equal(truncate(path, 0), 0); /* as cp does, in place */
	rig_expect(rig, "a", "version", "", "1");
	copy(rig, "version2.so", "p.so");
	rig_expect(rig, "a", "version", "", "1");
	session_restart(s, NULL);
	rig_turn(rig);
	rig_expect(rig, "a", "version", "", "2");
	assert_int_equal(unlink(path), 0);
	rig_expect(rig, "a", "version", "", "2");
	free(path);
}

static void
test_handlers_are_found_by_name(void **state)
{
	char error[256];
	const struct native_image *image =
		native_image_get(PLUGIN_DIR "/good.so", error, sizeof(error));
	const struct evd_plugin *p;

	(void)state;
	assert_non_null(image);
	p = image->plugin;
	for (size_t i = 0; i < p->n_handlers; i++) {
		const char *event = p->handlers[i].event;
		size_t size = strlen(event);

		assert_int_equal(native_image_find(image, event, size), i + 1);
		assert_int_equal(native_image_find(image, event, size - 1), 0);
	}
	assert_int_equal(native_image_find(image, "echo2", 5), 0);
	assert_int_equal(native_image_find(image, "e", 1), 0);
}

int
main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_bad_plugins_are_refused),
		TEST(test_files_that_are_no_plugins),
		TEST(test_truncated_files),
		TEST(test_files_that_others_can_write_are_refused),
		TEST(test_sessions_of_one_content_share_an_image),
		TEST(test_overwriting_the_file_harms_nobody),
		TEST(test_handlers_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
