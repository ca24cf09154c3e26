/* proto/prescan.c */
#include "proto/prescan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eventd.pb-c.h"
#include "proto/arena.h"
#include "proto/frame.h"

#define FRAME (&eventd__v1__frame__descriptor)
enum { DEPTH = 8, FIELDS = 1000 };

/* A message being built by hand. */
struct bytes {
	size_t size;
	uint8_t data[65536];
};

static struct bytes *
bytes_new(void **state)
{
	struct bytes *b = *state;

	b->size = 0;
	return b;
}

static void
put_varint(struct bytes *b, uint64_t value)
{
	b->size += varint_put(b->data + b->size, value);
}

static void
put_field(struct bytes *b, unsigned field, const void *data, size_t size)
{
	put_varint(b, field << 3 | 2);
	put_varint(b, size);
	memcpy(b->data + b->size, data, size);
	b->size += size;
}

/* Make what is in @b the value of @field, alone. */
static void
wrap(struct bytes *b, unsigned field)
{
	struct bytes *outer = calloc(1, sizeof(*outer));

	put_field(outer, field, b->data, b->size);
	memcpy(b, outer, sizeof(*b));
	free(outer);
}

static int
scan(const struct bytes *b, unsigned max_depth, size_t max_fields)
{
	/* an allocation of its own, so that ASan sees a look past the end */
	uint8_t *copy = malloc(b->size ? b->size : 1);
	int r;

	memcpy(copy, b->data, b->size);
	r = proto_prescan(FRAME, copy, b->size, max_depth, max_fields);
	free(copy);
	return r;
}

static void
test_an_empty_message_passes(void **state)
{
	assert_int_equal(scan(bytes_new(state), 1, 0), 0);
	assert_int_equal(scan(bytes_new(state), 0, 0), PRESCAN_E_DEPTH);
}

/* Frame.request.delay.headers: four levels. */
static struct bytes *
delay_with_header(void **state)
{
	struct bytes *b = bytes_new(state);

	put_field(b, 1, "name", 4);
	wrap(b, 4);
	wrap(b, 5);
	wrap(b, 7);
	return b;
}

static void
test_depth_is_counted_along_the_schema(void **state)
{
	struct bytes *b = delay_with_header(state);

	assert_int_equal(scan(b, 4, FIELDS), 0);
	assert_int_equal(scan(b, 3, FIELDS), PRESCAN_E_DEPTH);
	assert_int_equal(scan(b, 1, FIELDS), PRESCAN_E_DEPTH);
}

static void
test_strings_and_unknown_fields_are_no_levels(void **state)
{
	struct bytes *b = delay_with_header(state);

	wrap(b, 4); /* Envelope.payload */
	wrap(b, 1); /* Frame.envelopes */
	assert_int_equal(scan(b, 2, FIELDS), 0);
	wrap(b, 1000); /* unknown to Frame */
	assert_int_equal(scan(b, 1, FIELDS), 0);
}

/* B115: a schema that may nest without end; the bytes decide how deep. */
static void
test_a_recursive_schema_is_cut_at_the_depth(void **state)
{
	ProtobufCMessageDescriptor loop = eventd__v1__welcome__descriptor;
	ProtobufCFieldDescriptor field = {
		.name = "self",
		.id = 1,
		.label = PROTOBUF_C_LABEL_NONE,
		.type = PROTOBUF_C_TYPE_MESSAGE,
		.descriptor = &loop,
	};
	ProtobufCIntRange ranges[] = {{1, 0}, {0, 1}};
	struct bytes *b = bytes_new(state);

	loop.n_fields = 1;
	loop.fields = &field;
	loop.n_field_ranges = 1;
	loop.field_ranges = ranges;
	for (int i = 0; i < 7; i++)
		wrap(b, 1);
	assert_int_equal(proto_prescan(&loop, b->data, b->size, 8, FIELDS), 0);
	wrap(b, 1);
	assert_int_equal(proto_prescan(&loop, b->data, b->size, 8, FIELDS),
		PRESCAN_E_DEPTH);
	for (int i = 0; i < 10000; i++)
		wrap(b, 1);
	assert_int_equal(
		proto_prescan(&loop, b->data, b->size, UINT32_MAX, SIZE_MAX),
		PRESCAN_E_DEPTH);
}

static void
test_fields_are_counted_on_all_levels(void **state)
{
	struct bytes *b = delay_with_header(state);

	assert_int_equal(scan(b, DEPTH, 4), 0);
	assert_int_equal(scan(b, DEPTH, 3), PRESCAN_E_FIELDS);
	put_varint(b, 900 << 3); /* an unknown one, too */
	put_varint(b, 1);
	assert_int_equal(scan(b, DEPTH, 5), 0);
	assert_int_equal(scan(b, DEPTH, 4), PRESCAN_E_FIELDS);
}

static void
test_packed_elements_are_counted(void **state)
{
	struct bytes *b = bytes_new(state);

	for (int i = 0; i < 100; i++)
		put_varint(b, 300);
	wrap(b, 2); /* Ack.also */
	wrap(b, 2); /* Frame.ack */
	assert_int_equal(scan(b, DEPTH, 102), 0);
	assert_int_equal(scan(b, DEPTH, 101), PRESCAN_E_FIELDS);
}

static void
test_empty_submessages_are_counted(void **state)
{
	struct bytes *b = bytes_new(state);

	for (int i = 0; i < 1001; i++)
		put_field(b, 1, "", 0);
	assert_int_equal(scan(b, DEPTH, 1001), 0);
	assert_int_equal(scan(b, DEPTH, 1000), PRESCAN_E_FIELDS);
}

/* Each repetition makes protobuf-c copy all that came before. */
static void
test_a_single_message_is_not_merged_for_ever(void **state)
{
	struct bytes *b = bytes_new(state);

	for (int i = 0; i <= PRESCAN_MERGES_MAX; i++)
		put_field(b, 5, "\x1a\x01x", 3); /* Frame.hello.features */
	assert_int_equal(scan(b, DEPTH, FIELDS), 0);
	put_field(b, 5, "\x1a\x01x", 3);
	assert_int_equal(scan(b, DEPTH, FIELDS), PRESCAN_E_MERGES);
}

static void
test_a_repeated_message_may_be_repeated(void **state)
{
	struct bytes *b = bytes_new(state);

	for (int i = 0; i < 500; i++)
		put_field(b, 4, "\x08\x01", 2); /* Frame.failures.seq */
	assert_int_equal(scan(b, DEPTH, FIELDS), 0);
}

static void
test_malformed_bytes_are_refused(void **state)
{
	static const struct {
		const char *data;
		size_t size;
	} bad[] = {
		{"\x0a", 1},     /* no length */
		{"\x0a\x01", 2}, /* no value */
		{"\x0a\xff", 2}, /* length cut short */
		{"\x80", 1},     /* tag cut short */
		{"\x00\x00", 2}, /* field 0 */
		{"\x0b\x0c", 2}, /* a group */
		{"\x0c", 1},     /* its end */
		{"\x0e", 1},     /* wire types that do not exist */
		{"\x0f", 1}, {"\x09\x00\x00", 3}, /* fixed64 cut short */
		{"\x0d\x00\x00", 3},              /* fixed32 cut short */
		{"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},
		{"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
		{"\xff\xff\xff\xff\xff\x01\x00", 7}, /* tag beyond 32 bits */
		{"\x3a\x02\x2a\x05", 4}, /* the inner one is too long */
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct bytes *b = bytes_new(state);

		memcpy(b->data, bad[i].data, bad[i].size);
		b->size = bad[i].size;
		assert_int_equal(scan(b, DEPTH, FIELDS), PRESCAN_E_MALFORMED);
	}
}

static void
test_every_truncation_is_refused(void **state)
{
	struct bytes *b = delay_with_header(state);

	while (--b->size > 0)
		assert_int_equal(scan(b, DEPTH, FIELDS), PRESCAN_E_MALFORMED);
}

/* What passes is unpacked within the promised memory, or refused; never more.
 * Random bytes from a small alphabet that makes many and nested fields. */
static void
test_what_passes_costs_what_is_promised(void **state)
{
	static const uint8_t alphabet[] = {0x0a, 0x12, 0x1a, 0x22, 0x2a, 0x3a,
		0x42, 0x00, 0x01, 0x02, 0x03, 0x05, 0x08, 0x10, 0x20, 0x7f};
	unsigned seed = 1, n_passed = 0, n_unpacked = 0;

	for (int round = 0; round < 100000; round++) {
		struct bytes *b = bytes_new(state);
		ProtobufCAllocator allocator;
		struct arena a;

		b->size = (size_t)rand_r(&seed) % 24;
		for (size_t i = 0; i < b->size; i++)
			b->data[i] = alphabet[rand_r(&seed) % 16];
		if (scan(b, DEPTH, 16) != 0)
			continue;
		n_passed++;
		arena_init(&a, SIZE_MAX);
		allocator = arena_allocator(&a);
		if (eventd__v1__frame__unpack(&allocator, b->size, b->data))
			n_unpacked++;
		assert_true(
			a.used <= (size_t)17 * PRESCAN_FIELD_COST + b->size);
		arena_deinit(&a);
	}
	assert_true(n_passed > 1000);
	assert_true(n_unpacked > 500);
}

/* B116: the worst frame of a given size, and what it may cost. */
static void
test_a_frame_of_empty_messages_stays_in_bounds(void **state)
{
	enum { N = 30000 };
	struct bytes *b = bytes_new(state);
	struct arena a;
	ProtobufCAllocator allocator;

	for (int i = 0; i < N; i++)
		put_field(b, 1, "", 0);
	assert_int_equal(scan(b, DEPTH, N), 0);
	arena_init(&a, SIZE_MAX);
	allocator = arena_allocator(&a);
	assert_non_null(
		eventd__v1__frame__unpack(&allocator, b->size, b->data));
	assert_true(a.used <= (size_t)N * PRESCAN_FIELD_COST);
	arena_deinit(&a);
}

static int
setup(void **state)
{
	*state = calloc(1, sizeof(struct bytes));
	return *state ? 0 : -1;
}

static int
teardown(void **state)
{
	free(*state);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_an_empty_message_passes),
		TEST(test_depth_is_counted_along_the_schema),
		TEST(test_strings_and_unknown_fields_are_no_levels),
		TEST(test_a_recursive_schema_is_cut_at_the_depth),
		TEST(test_fields_are_counted_on_all_levels),
		TEST(test_packed_elements_are_counted),
		TEST(test_empty_submessages_are_counted),
		TEST(test_a_single_message_is_not_merged_for_ever),
		TEST(test_a_repeated_message_may_be_repeated),
		TEST(test_malformed_bytes_are_refused),
		TEST(test_every_truncation_is_refused),
		TEST(test_what_passes_costs_what_is_promised),
		TEST(test_a_frame_of_empty_messages_stays_in_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
