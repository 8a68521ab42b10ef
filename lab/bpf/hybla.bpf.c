// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
//
// TCP Hybla (C. Caini, R. Firrincieli: TCP Hybla, a TCP enhancement for heterogeneous networks, 2004) as a congestion
// control without a kernel module (BPF struct_ops). `farlink doctor --install hybla` registers the object made of it.
// It is made again, byte for byte, with clang 14 and llvm-strip 14:
//
//   clang-14 -O2 -g -target bpf -mcpu=v3 -fdebug-compilation-dir=. -c hybla.bpf.c -o hybla.bpf.o
//   llvm-strip-14 -g hybla.bpf.o
//
// With rho = RTT / RTT0, RTT0 = 25 ms, each acknowledgment adds 2^rho - 1 segments to the window in slow start, and
// rho^2 / window segments in congestion avoidance, so that the window grows in time as it would on a path of RTT0. The
// window begins with rho segments. The first threshold is without limit, and rho times that is the same.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
// The kernel's layout of these structures is looked up when the object is loaded.
#define KERNEL __attribute__((preserve_access_index))

// Never looked into, but the kernel compares the types of its functions: a declaration alone would differ.
struct sock {
};

struct inet_connection_sock {
	u64 icsk_ca_priv[13];
} KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 srtt_us;
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 snd_cwnd_clamp;
	u32 max_packets_out;
	u8 is_cwnd_limited : 1;
} KERNEL;

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*init)(struct sock *sk);
	u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
};

#define KERNEL_FUNCTION __attribute__((section(".ksyms")))
extern u32 tcp_reno_ssthresh(struct sock *sk) KERNEL_FUNCTION;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) KERNEL_FUNCTION;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) KERNEL_FUNCTION;

char license_text[] SEC("license") = "Dual MIT/GPL";

// The kernel keeps the smoothed round trip in eighths of a microsecond.
#define RTT0 (25000 * 8)
// Fixed point: 10 bits of fraction.
#define ONE 1024
// Largest exponent of slow start, as in Linux' own Hybla: a window has at most 65,535 segments.
#define EXPONENT_MOST 16

struct hybla {
	// Smallest round trip seen, as the kernel keeps it, and rho of it.
	u32 round_trip;
	u32 rho;
	// Fraction of a segment that the window has grown by.
	u32 part;
	// State of loss recovery; 0 is open.
	u32 state;
};

static inline struct hybla *state_of(struct sock *sk)
{
	return (struct hybla *)((struct tcp_sock *)sk)->inet_conn.icsk_ca_priv;
}

// 2^(k/8) - 1 for k from 0 to 7, times ONE, in 16 bits each: a table would need a map.
#define EIGHTHS_LOW (0ull | 93ull << 16 | 194ull << 32 | 304ull << 48)
#define EIGHTHS_HIGH (424ull | 555ull << 16 | 698ull << 32 | 854ull << 48)

// 2^rho, times ONE.
static inline u64 power_of_two(u32 rho)
{
	u32 whole = rho / ONE, eighth = rho / (ONE / 8) & 7;
	u64 part = (eighth & 4 ? EIGHTHS_HIGH : EIGHTHS_LOW) >> (eighth & 3) * 16 & 0xffff;

	return whole < EXPONENT_MOST ? (ONE + part) << whole : (u64)ONE << EXPONENT_MOST;
}

static inline void measure(struct hybla *hybla, u32 round_trip)
{
	u64 rho = (u64)round_trip * ONE / RTT0;

	hybla->round_trip = round_trip;
	// Below RTT0 it is NewReno; the limit keeps rho^2 within 32 bits: 48 s.
	hybla->rho = rho < ONE ? ONE : rho > 1920 * ONE ? 1920 * ONE : rho;
}

// Whether the window limits the sender, a field of one bit, whose place the loader fills in: offset and size of the word
// that holds it, and its shifts to the left and to the right of 64 bits.
static inline int is_limited(struct tcp_sock *tcp)
{
	const u8 *word = (const u8 *)tcp + __builtin_preserve_field_info(tcp->is_cwnd_limited, 0);
	u64 value = 0;

	switch (__builtin_preserve_field_info(tcp->is_cwnd_limited, 1)) {
	case 1:
		value = *word;
		break;
	case 2:
		value = *(const unsigned short *)word;
		break;
	case 4:
		value = *(const u32 *)word;
		break;
	case 8:
		value = *(const u64 *)word;
		break;
	}
	value <<= __builtin_preserve_field_info(tcp->is_cwnd_limited, 4);
	return value >> __builtin_preserve_field_info(tcp->is_cwnd_limited, 5) != 0;
}

SEC("struct_ops/hybla_init")
void hybla_init(u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	struct hybla *hybla = state_of(sk);

	hybla->part = 0;
	hybla->state = 0;
	measure(hybla, tcp->srtt_us);
	tcp->snd_cwnd = hybla->rho / ONE;
}

SEC("struct_ops/hybla_state")
void hybla_state(u64 *context)
{
	state_of((struct sock *)context[0])->state = (u8)context[1];
}

SEC("struct_ops/hybla_ssthresh")
u32 hybla_ssthresh(u64 *context)
{
	return tcp_reno_ssthresh((struct sock *)context[0]);
}

SEC("struct_ops/hybla_undo")
u32 hybla_undo(u64 *context)
{
	return tcp_reno_undo_cwnd((struct sock *)context[0]);
}

SEC("struct_ops/hybla_acknowledged")
void hybla_acknowledged(u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	struct hybla *hybla = state_of(sk);
	u32 acked = context[2], window = tcp->snd_cwnd, times;
	int slow_start = window < tcp->snd_ssthresh;
	u64 grow;

	if (tcp->srtt_us < hybla->round_trip)
		measure(hybla, tcp->srtt_us);
	// The window grows only while it is what limits the sender (`tcp_is_cwnd_limited`).
	if (!is_limited(tcp) && !(slow_start && window < 2 * tcp->max_packets_out))
		return;
	if (hybla->state) {
		tcp_reno_cong_avoid(sk, context[1], acked);
		return;
	}
	if (slow_start)
		grow = power_of_two(hybla->rho) - ONE;
	else
		grow = (u64)hybla->rho * hybla->rho / ONE / (window ? window : 1);
	// Receivers acknowledge two segments at once. Those that coalesce what they receive acknowledge many, and count as
	// often as they would without.
	times = (acked + 1) / 2;
	grow = grow * (times ? times : 1) + hybla->part;
	hybla->part = grow % ONE;
	grow = window + grow / ONE;
	if (slow_start && grow > tcp->snd_ssthresh)
		grow = tcp->snd_ssthresh;
	if (grow > 65535)
		grow = 65535;
	if (grow > tcp->snd_cwnd_clamp)
		grow = tcp->snd_cwnd_clamp;
	tcp->snd_cwnd = grow;
}

SEC(".struct_ops")
struct tcp_congestion_ops fl_hybla = {
	.init = (void *)hybla_init,
	.set_state = (void *)hybla_state,
	.ssthresh = (void *)hybla_ssthresh,
	.cong_avoid = (void *)hybla_acknowledged,
	.undo_cwnd = (void *)hybla_undo,
	.name = "fl_hybla",
};
