/* TensorBoard's event files: a record for each event, an event for the numbers of one step.
 *
 *   8 bytes    length of the event          record (TFRecord; numbers are little endian)
 *   4          check of these 8 bytes       CRC32C, turned by 15 bits, plus a constant
 *   length     the event                    Protocol Buffers: tensorflow.Event
 *   4          its check
 *
 * The first event names the version. A number is a float32, as TensorBoard's scalars are: bytes
 * above 16 MiB are rounded to 24 bits. TensorBoard takes files whose names have "tfevents" in
 * them. Nothing here takes memory: an event is made in room of its own. */
#pragma once

#include "alloc/base/gzip.h"

#define SW_TFEVENTS_NAME "events.out.tfevents" /* how a file's name usually begins */
#define SW_TFEVENTS_ROOM 4096
#define SW_TFEVENTS_FRONT 12 /* bytes of a record before its event, */
#define SW_TFEVENTS_BACK 4   /* and after it */

typedef struct {
    sw_crc32_table crc;
    unsigned char bytes[SW_TFEVENTS_ROOM]; /* of the record that was ended */
    size_t n;
    size_t summary; /* where the length of the numbers stands */
} sw_tfevents;

void sw_tfevents_init(sw_tfevents *e);
/* The first record of a file. `wall_s`: seconds since 1970, here and below. */
void sw_tfevents_version(sw_tfevents *e, double wall_s);
/* A record of numbers: begun, filled, ended; then it is bytes[0] to bytes[n - 1]. Numbers
 * beyond the room, some eighty, are left out. Records of the same tags have the same length,
 * but for the digits of the step. */
void sw_tfevents_begin(sw_tfevents *e, double wall_s, uint64_t step);
void sw_tfevents_scalar(sw_tfevents *e, const char *tag, double value);
void sw_tfevents_end(sw_tfevents *e);
/* The length of the whole record whose first SW_TFEVENTS_FRONT bytes these are; 0 where their
 * check fails. */
uint64_t sw_tfevents_length(const sw_tfevents *e, const unsigned char *front);
