// Blocks of a cluster write into each other's shared memory. A gate of the receiver counts the bytes that
// come, so that nobody waits for anything else: barriers of the cluster would wait for all of memory. Race
// checkers do not know gates: with RACECHECK there are plain stores, and barriers. On a CPU there is
// emulate_cluster.cpp instead.
#pragma once
#include "locate.cuh"

enum Gates {
    POINTS_GATE,
    WINDOW_GATE,
    VERIFY_GATE,
    ENERGY_GATE,
    OPEN_GATE,
    FIND_GATE,
    ORDER_GATE,
    SUM_GATE,
    MORE_GATE,
    GATES
};

#ifndef EMULATED
DEV u32 shared_at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEV u32 remote_at(u32 at, u32 block) {
    u32 r;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(at), "r"(block));
    return r;
}
template <class T> DEV T* remote(T* p, u32 block) {
    u64 at;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(at) : "l"((u64)p), "r"(block));
    return (T*)at;
}
#define ASYNC "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes"
DEV void store(u32 at, u32 gate, Z v) {
    asm volatile(ASYNC ".v2.f64 [%0], {%1, %2}, [%3];" ::"r"(at), "d"(v.x), "d"(v.y), "r"(gate) : "memory");
}
DEV void store(u32 at, u32 gate, u64 v) {
    asm volatile(ASYNC ".b64 [%0], %1, [%2];" ::"r"(at), "l"(v), "r"(gate) : "memory");
}
DEV void store(u32 at, u32 gate, double v) { store(at, gate, (u64)__double_as_longlong(v)); }
DEV void store(u32 at, u32 gate, u32 v) {
    asm volatile(ASYNC ".b32 [%0], %1, [%2];" ::"r"(at), "r"(v), "r"(gate) : "memory");
}
// *p = v in that block.
template <class S, class Shared, class T> DEV void put(Shared& s, Gates gate, u32 block, T* p, T v) {
    if (S::BLOCKS == 1) {
        *p = v;
        return;
    }
#ifdef RACECHECK
    *remote(p, block) = v;
#else
    store(remote_at(shared_at(p), block), remote_at(shared_at(s.gates + gate), block), v);
#endif
}
template <class Shared> DEV void make_gate(Shared& s, Gates gate, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(s.gates + gate)), "r"(count) : "memory");
}
DEV void gates_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// So many bytes will come, to a gate of this block or of another.
template <class Shared> DEV void expect(Shared& s, Gates gate, u32 bytes) {
#ifndef RACECHECK
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_at(s.gates + gate)), "r"(bytes)
                 : "memory");
#endif
}
template <class S, class Shared> DEV void announce(Shared& s, Gates gate, u32 block, u32 bytes) {
#ifndef RACECHECK
    asm volatile("mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%0], %1;" ::"r"(
                     remote_at(shared_at(s.gates + gate), block)),
                 "r"(bytes)
                 : "memory");
#endif
}
// Waits until everything has come.
template <class S, class Shared> DEV void pass(Shared& s, Gates gate) {
#ifndef RACECHECK
    if (S::BLOCKS == 1) return;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n"
                 "@!p bra again;\n"
                 "}" ::"r"(shared_at(s.gates + gate))
                 : "memory");
#endif
}
// A sample for shared memory, and the wait for all that this thread has asked for.
DEV void copy_here(Z* to, const Z* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(to)), "l"(from) : "memory");
}
DEV void copied_here() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// Everyone is there, and can be written to.
template <class S> DEV void arrive() {
    if (S::BLOCKS > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
template <class S> DEV void await() {
    if (S::BLOCKS > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// A barrier where gates are none: one block, or for race checkers.
template <class S> DEV void part() {
    if (S::BLOCKS == 1) __syncthreads();
#ifdef RACECHECK
    if (S::BLOCKS > 1) {
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    }
#endif
}
// A barrier of the block, likewise.
template <class S> DEV void meet() {
    if (S::BLOCKS > 1) __syncthreads();
    part<S>();
}

// A barrier of the first COUNT threads, or of other threads by another NUMBER beside it. Tools that look
// for races know barriers of whole blocks only: with RACECHECK the others wait as well.
template <u32 COUNT, u32 NUMBER = 1> DEV void some_threads_sync() {
#ifdef RACECHECK
    __syncthreads();
#else
    asm volatile("bar.sync %0, %1;" ::"n"(NUMBER), "n"(COUNT) : "memory");
#endif
}
// The same with a number that is known late.
DEV void named_sync(u32 number, u32 count) {
#ifdef RACECHECK
    __syncthreads();
#else
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(count) : "memory");
#endif
}
DEV void wait_for_others(u32 times) {
#ifdef RACECHECK
    for (u32 i = 0; i < times; i++) __syncthreads();
#endif
}
#endif
