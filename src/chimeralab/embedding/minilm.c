/* all-MiniLM-L6-v2 on the CPU: int16 products summed exactly in int32, float32 between them.
 *
 * The work of the network is in its linear layers. Each row of numbers that meets a weight row
 * becomes int16 by one scale of its own, and so do the weight rows, once, when they are packed.
 * The scale is the largest for which no sum of products can leave int32: by Cauchy-Schwarz,
 * |a.b| <= |a| |b|, and both lengths are kept below the square root of 2^31.
 *
 * Rows meet only rows of their own text, integer sums have no rounding, and every float operation
 * has one fixed order. So a vector depends on its text alone: not on the batch, its order, the
 * number of threads, or the kernel that did the sums.
 *
 * Plain C11 with the intrinsics of AVX2 and FMA. Nothing here knows of Python, keeps global state
 * or starts a thread: callers bring the threads, as many as they have, and may come late.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Raised with every change of the functions below or of what they compute. */
EXPORT int minilm_version(void) { return 4; }

enum Kernel { NO_KERNEL, PLAIN, AVX2_MADD };
enum Status { OK, BAD_INPUT, NO_MEMORY, NOT_FINITE };

#if !defined(__x86_64__) || !defined(__GNUC__) /* which Clang defines, too */

EXPORT int minilm_kernel(int most) { return (void)most, NO_KERNEL; }

#else

#include <cpuid.h>
#include <immintrin.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <malloc.h>
#include <windows.h>
#define give_way() SwitchToThread()
#else
#include <sched.h>
#define give_way() sched_yield()
#endif

#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline))
/* Before a loop over registers, which must not become one over memory. */
#ifdef __clang__
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

enum {
    WIDTH = 384,
    WIDE = 4 * WIDTH,
    HEADS = 12,
    HEAD = WIDTH / HEADS,
    LAYERS = 6,
    LONGEST = 512, /* pieces of one text */
    MAX_ROWS = 1 << 24, /* pieces of one job */
    ROWS = 4,      /* a tile of sums is ROWS x COLUMNS: eight registers of eight int32 */
    COLUMNS = 16,
    QUERIES = 6,   /* rows that attend together: with COLUMNS keys, twelve registers */
    BLOCK = 96,    /* rows that go through a layer together, for which its weights are fetched once */
};

/* ---- memory ---- */

static void *room_for(size_t bytes) {
    bytes = (bytes + 63) & ~(size_t)63;
#ifdef _WIN32
    return _aligned_malloc(bytes, 64);
#else
    return aligned_alloc(64, bytes);
#endif
}

static void give_back(void *room) {
#ifdef _WIN32
    _aligned_free(room);
#else
    free(room);
#endif
}

/* ---- float32, eight numbers at a time ---- */

typedef __m256 Eight;

AVX2 INLINE Eight all(float x) { return _mm256_set1_ps(x); }
AVX2 INLINE Eight load(const float *x) { return _mm256_loadu_ps(x); }
AVX2 INLINE void store(float *x, Eight y) { _mm256_storeu_ps(x, y); }
AVX2 INLINE Eight times_plus(Eight a, Eight b, Eight c) { return _mm256_fmadd_ps(a, b, c); }

AVX2 INLINE float sum_of(Eight x) {
    float a[8];
    store(a, x);
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

AVX2 INLINE float largest_of(Eight x) {
    float a[8];
    store(a, x);
    for (int i = 1; i < 8; i++) a[0] = a[i] > a[0] ? a[i] : a[0];
    return a[0];
}

/* e^x for x <= 0: a power of two times the Taylor series of what remains, |r| <= ln 2 / 2. */
AVX2 INLINE Eight exp_below_0(Eight x) {
    x = _mm256_max_ps(x, all(-87.f));
    Eight n = _mm256_round_ps(_mm256_mul_ps(x, all(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    Eight r = _mm256_fnmadd_ps(n, all(0.693145752f), x); /* ln 2 in two parts, the first exact times n */
    r = _mm256_fnmadd_ps(n, all(1.42860677e-6f), r);
    Eight y = all(1.f / 720);
    y = times_plus(y, r, all(1.f / 120));
    y = times_plus(y, r, all(1.f / 24));
    y = times_plus(y, r, all(1.f / 6));
    y = times_plus(y, r, all(1.f / 2));
    y = times_plus(y, r, all(1.f));
    y = times_plus(y, r, all(1.f));
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(y, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}

/* x (1 + erf(x / sqrt 2)) / 2, with erf as the ratio of polynomials that minilm.py explains. */
AVX2 INLINE Eight gelu(Eight x) {
    Eight z = _mm256_mul_ps(x, all(0.707106781f));
    z = _mm256_max_ps(_mm256_min_ps(z, all(4.f)), all(-4.f));
    Eight t = _mm256_mul_ps(z, z), over = all(1.97469387e-06f), under = all(3.74782588e-05f);
    over = times_plus(over, t, all(2.88019463e-04f));
    under = times_plus(under, t, all(1.21625371e-03f));
    over = times_plus(over, t, all(4.00333160e-03f));
    under = times_plus(under, t, all(1.54438395e-02f));
    over = times_plus(over, t, all(5.34665533e-02f));
    under = times_plus(under, t, all(1.16474046e-01f));
    over = times_plus(over, t, all(1.96243755e-01f));
    under = times_plus(under, t, all(5.07247666e-01f));
    over = times_plus(over, t, all(1.12837898e+00f));
    under = times_plus(under, t, all(1.f));
    Eight erf = _mm256_div_ps(_mm256_mul_ps(z, over), under), half = _mm256_mul_ps(x, all(0.5f));
    return times_plus(half, erf, half);
}

AVX2 static void normalise(float *x, const float *weight, const float *bias) {
    Eight sum = all(0), squares = all(0);
    for (int i = 0; i < WIDTH; i += 8) sum = _mm256_add_ps(sum, load(x + i));
    Eight mean = all(sum_of(sum) / WIDTH);
    for (int i = 0; i < WIDTH; i += 8) {
        Eight d = _mm256_sub_ps(load(x + i), mean);
        squares = times_plus(d, d, squares);
    }
    Eight scale = all(1.f / sqrtf(sum_of(squares) / WIDTH + 1e-12f));
    for (int i = 0; i < WIDTH; i += 8) {
        Eight d = _mm256_mul_ps(_mm256_sub_ps(load(x + i), mean), scale);
        store(x + i, times_plus(d, load(weight + i), load(bias + i)));
    }
}

/* ---- from float32 to int16 ---- */

#ifndef LENGTH /* a test raises it, and must see an overflow */
#define LENGTH 46300.f
#endif

/* The largest numbers in a row of activations and in one of weights: a sum of two is an int16, too.
 * Few rows of weights have so large a number; of activations, those of [CLS] and [SEP] do. */
enum { LARGEST = 22000, LARGEST_WEIGHT = INT16_MAX - LARGEST };

/* Writes n numbers as int16 up to `largest` and gives the size of one step, or a negative number
 * where they have no finite length. Rounding moves each by half a step at most, which lengthens the
 * row by at most sqrt(n) / 2; the sum of squares is off by less than 2e-5 of itself. Hence lengths
 * stay below 46,301, and 46,301^2 < 2^31. */
AVX2 static float quantise(const float *x, int n, int largest, int16_t *q) {
    Eight top = all(0), squares = all(0), sign = all(-0.f);
    for (int i = 0; i < n; i += 8) {
        Eight v = load(x + i);
        top = _mm256_max_ps(top, _mm256_andnot_ps(sign, v));
        squares = times_plus(v, v, squares);
    }
    float most = largest_of(top), length = sqrtf(sum_of(squares));
    if (!(length < 1e18f)) return -1.f; /* NaN, infinite, or so large that its square is */
    if (!(most > 1e-18f)) { /* nothing that the sums of other rows could tell from 0 */
        memset(q, 0, (size_t)n * sizeof *q);
        return 0.f;
    }
    float by_size = (largest - 0.5f) / most, by_length = (LENGTH - 0.5f * sqrtf((float)n)) / length;
    float scale = by_size < by_length ? by_size : by_length;
    for (int i = 0; i < n; i += 16) {
        __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(load(x + i), all(scale)));
        __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(load(x + i + 8), all(scale)));
        __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
        _mm256_storeu_si256((__m256i *)(q + i), both);
    }
    return 1.f / scale;
}

/* What a row adds to Winograd's products by itself, modulo 2^32: see sums_avx2. */
AVX2 static uint32_t own_part(const int16_t *q, int n) {
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < n; i += 16) {
        __m256i four = _mm256_loadu_si256((const __m256i *)(q + i));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(four, _mm256_shuffle_epi32(four, 0xB1)));
    }
    uint32_t part[8]; /* each twice */
    _mm256_storeu_si256((__m256i *)part, sum);
    return part[0] + part[2] + part[4] + part[6];
}

/* ---- sums of products: ROWS rows of activations against a panel of COLUMNS weight rows ----
 *
 * A panel holds, for every pair of neighbouring inputs, that pair of each of its weight rows: one
 * broadcast pair of activations meets sixteen pairs of weights. The three kernels give the same
 * integers; `a_own` and `b_own` are the own parts of the rows and of the weight rows. */

typedef void Sums(const int16_t *a, const uint32_t *a_own, const int16_t *panel, const uint32_t *b_own, int inputs,
                  int32_t *sums);

/* The definition, in which a sanitizer sees an overflow. */
static void sums_plain(const int16_t *a, const uint32_t *a_own, const int16_t *panel, const uint32_t *b_own,
                       int inputs, int32_t *sums) {
    (void)a_own, (void)b_own;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            int32_t sum = 0;
            for (int i = 0; i < inputs; i += 2)
                for (int j = 0; j < 2; j++)
                    sum += a[(size_t)r * inputs + i + j] * panel[(size_t)i * COLUMNS + 2 * c + j];
            sums[r * COLUMNS + c] = sum;
        }
}

AVX2 INLINE __m256i pair_of(const int16_t *a) {
    int32_t pair;
    memcpy(&pair, a, sizeof pair);
    return _mm256_set1_epi32(pair);
}

/* Winograd's way to a sum with half of the multiplications:
 *
 *     a0 b0 + a2 b2 = (a0 + b2) (a2 + b0) - a0 a2 - b0 b2
 *
 * for the first numbers of two pairs, and so for the second ones. What is subtracted depends on one
 * row alone. It may pass 2^31 on the way, and so may the sum; both wrap, and the difference is right
 * because the true sum fits. Fewer ports of a CPU multiply than add, so this is a tenth faster than
 * multiplying everything. */
#define HALVED(x, y, b0, b1, c0, c1, s0, s1) \
    do { \
        __m256i t, u; /* written out: compilers choose orders that are slower, or run out of registers */ \
        __asm__( \
            "vpaddw %[x], %[c_0], %[t]\n\t" \
            "vpaddw %[y], %[b_0], %[u]\n\t" \
            "vpaddw %[x], %[c_1], %[x]\n\t" \
            "vpaddw %[y], %[b_1], %[y]\n\t" \
            "vpmaddwd %[t], %[u], %[t]\n\t" \
            "vpmaddwd %[x], %[y], %[x]\n\t" \
            "vpaddd %[t], %[s_0], %[s_0]\n\t" \
            "vpaddd %[x], %[s_1], %[s_1]" \
            : [s_0] "+x"(s0), [s_1] "+x"(s1), [x] "+x"(x), [y] "+x"(y), [t] "=&x"(t), [u] "=&x"(u) \
            : [b_0] "x"(b0), [b_1] "x"(b1), [c_0] "x"(c0), [c_1] "x"(c1)); \
    } while (0)

AVX2 static void sums_avx2(const int16_t *a, const uint32_t *a_own, const int16_t *panel, const uint32_t *b_own,
                           int inputs, int32_t *sums) {
    __m256i s[ROWS][2];
    UNROLLED for (int r = 0; r < ROWS; r++) s[r][0] = s[r][1] = _mm256_setzero_si256();
    for (int i = 0; i < inputs; i += 4) {
        const __m256i *b = (const __m256i *)(panel + (size_t)i * COLUMNS);
        __m256i b0 = _mm256_load_si256(b), b1 = _mm256_load_si256(b + 1);
        __m256i c0 = _mm256_load_si256(b + 2), c1 = _mm256_load_si256(b + 3);
        UNROLLED for (int r = 0; r < ROWS; r++) {
            __m256i x = pair_of(a + (size_t)r * inputs + i), y = pair_of(a + (size_t)r * inputs + i + 2);
            HALVED(x, y, b0, b1, c0, c1, s[r][0], s[r][1]);
        }
    }
    UNROLLED for (int r = 0; r < ROWS; r++)
        UNROLLED for (int h = 0; h < 2; h++) {
            __m256i own = _mm256_loadu_si256((const __m256i *)b_own + h);
            own = _mm256_add_epi32(own, _mm256_set1_epi32((int32_t)a_own[r]));
            _mm256_store_si256((__m256i *)sums + 2 * r + h, _mm256_sub_epi32(s[r][h], own));
        }
}

/* Writes a weight row where it belongs in its panel. */
INLINE void to_panel(const int16_t *row, int inputs, int16_t *panel) {
    for (int i = 0; i < inputs; i += 2) memcpy(panel + (size_t)i * COLUMNS, row + i, 2 * sizeof *row);
}

static Sums *const SUMS[] = {NULL, sums_plain, sums_avx2};

/* Whether a kernel gives the sums of the definition, for numbers of every size and for the largest.
 * Half of the inputs are 0, with which no sum leaves int32. */
AVX2 static int is_right(Sums *kernel) {
    enum { INPUTS = 16 };
    _Alignas(64) int16_t a[ROWS * INPUTS], b[COLUMNS * INPUTS], panel[COLUMNS * INPUTS];
    _Alignas(64) int32_t expected[ROWS * COLUMNS], found[ROWS * COLUMNS];
    uint32_t a_own[ROWS], b_own[COLUMNS], seed = 1;
    for (int round = 0; round < 64; round++) {
        for (int i = 0; i < (ROWS + COLUMNS) * INPUTS; i++) {
            int is_weight = i >= ROWS * INPUTS, largest = is_weight ? LARGEST_WEIGHT : LARGEST;
            seed = seed * 1664525u + 1013904223u;
            int value = (int)(seed >> 16) % (2 * largest + 1) - largest;
            if (round % 2) value = value < 0 ? -largest : largest;
            if (i % INPUTS >= INPUTS / 2) value = 0;
            *(is_weight ? b + i - ROWS * INPUTS : a + i) = (int16_t)value;
        }
        for (int r = 0; r < ROWS; r++) a_own[r] = own_part(a + r * INPUTS, INPUTS);
        for (int c = 0; c < COLUMNS; c++) {
            b_own[c] = own_part(b + c * INPUTS, INPUTS);
            to_panel(b + c * INPUTS, INPUTS, panel + 2 * c);
        }
        sums_plain(a, a_own, panel, b_own, INPUTS, expected);
        kernel(a, a_own, panel, b_own, INPUTS, found);
        if (memcmp(expected, found, sizeof found)) return 0;
    }
    return 1;
}

/* ---- what this CPU can do ---- */

static int has_avx2(void) {
    unsigned a, b, c, d, high;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    int saves = c >> 27 & 1, avx = c >> 28 & 1, fma = c >> 12 & 1;
    if (!saves || !avx) return 0;
    unsigned kept; /* registers that the system saves for us: xmm and ymm */
    __asm__("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    if ((kept & 0x06) != 0x06 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    return fma && (b >> 5 & 1);
}

/* The best kernel up to `most` that this CPU runs and that gives the right sums. */
EXPORT int minilm_kernel(int most) {
    if (!has_avx2() || most < PLAIN || !is_right(sums_avx2)) return NO_KERNEL;
    return most >= AVX2_MADD ? AVX2_MADD : PLAIN;
}

/* ---- the packed model: one block of memory, aligned to 64 bytes ---- */

#define LINEAR(outputs, inputs) \
    struct { \
        int16_t weight[(size_t)(outputs) * (inputs)]; \
        float step[outputs], bias[outputs]; \
        uint32_t own[outputs]; \
    }

typedef struct {
    float weight[WIDTH], bias[WIDTH];
} Norm;

typedef struct {
    LINEAR(3 * WIDTH, WIDTH) attention; /* query, key and value below each other */
    LINEAR(WIDTH, WIDTH) output;
    Norm attention_norm;
    LINEAR(WIDE, WIDTH) up;
    LINEAR(WIDTH, WIDE) down;
    Norm output_norm;
} Layer;

typedef struct {
    float places[LONGEST * WIDTH];
    Norm norm;
    Layer layers[LAYERS];
} Model;

EXPORT size_t minilm_size(void) { return sizeof(Model); }

/* Takes the next weight and bias, and writes them as outputs `from` and following. */
AVX2 static int pack(const float *const **arrays, int outputs, int inputs, int from, int16_t *weights, float *steps,
                     float *biases, uint32_t *own) {
    const float *weight = *(*arrays)++, *bias = *(*arrays)++;
    int16_t row[WIDE];
    for (int o = 0; o < outputs; o++) {
        float step = quantise(weight + (size_t)o * inputs, inputs, LARGEST_WEIGHT, row);
        if (!(step >= 0) || !(fabsf(bias[o]) < 1e18f)) return NOT_FINITE;
        int at = from + o;
        steps[at] = step;
        biases[at] = bias[o];
        own[at] = own_part(row, inputs);
        to_panel(row, inputs, weights + (size_t)(at / COLUMNS) * COLUMNS * inputs + at % COLUMNS * 2);
    }
    return OK;
}

static void copy_norm(const float *const **arrays, Norm *norm) {
    memcpy(norm->weight, *(*arrays)++, sizeof norm->weight);
    memcpy(norm->bias, *(*arrays)++, sizeof norm->bias);
}

#define PACK(outputs, inputs, from, to) \
    if (!status) status = pack(&arrays, outputs, inputs, from, (to).weight, (to).step, (to).bias, (to).own)

/* Packs the arrays of the network, each in C order: the places (with the vector of the first
 * segment added), a norm, and for every layer query, key, value, output, a norm, up, down and a
 * norm; of each weight and bias. */
EXPORT int minilm_pack(const float *const *arrays, Model *model) {
    int status = OK;
    memcpy(model->places, *arrays++, sizeof model->places);
    copy_norm(&arrays, &model->norm);
    for (int i = 0; i < LAYERS; i++) {
        Layer *layer = model->layers + i;
        for (int part = 0; part < 3; part++) PACK(WIDTH, WIDTH, part * WIDTH, layer->attention);
        for (int o = 0; o < WIDTH; o++) { /* attention divides by the root of a head's width */
            layer->attention.step[o] *= 0.176776695f;
            layer->attention.bias[o] *= 0.176776695f;
        }
        PACK(WIDTH, WIDTH, 0, layer->output);
        copy_norm(&arrays, &layer->attention_norm);
        PACK(WIDE, WIDTH, 0, layer->up);
        PACK(WIDTH, WIDE, 0, layer->down);
        copy_norm(&arrays, &layer->output_norm);
        if (status) return status;
    }
    return status;
}

/* ---- a job: some texts, and whoever works on them ---- */

typedef struct {
    const Model *model;
    const float *words;
    const int32_t *ids, *starts;
    int texts, rows, tiles;
    float *out;
    Sums *sums;
    int32_t *text; /* of every row */
    float *x;      /* rows x WIDTH: what the network holds of every piece */
    float *qkv[2]; /* 36 planes of rows x HEAD: query, key and value, head by head; for the layer
                      that is being done and for the next */
    atomic_int next, done, status;
} Job;

/* What one thread needs for a tile. */
typedef struct {
    int16_t q[(BLOCK + ROWS) * WIDE];
    uint32_t own[BLOCK + ROWS];
    float wide[BLOCK * WIDE], seen[BLOCK * WIDTH], steps[BLOCK + ROWS];
    float keys[HEAD * LONGEST], weights[QUERIES * LONGEST];
    _Alignas(64) int32_t sums[ROWS * COLUMNS];
} Room;

/* Rows to int16; the sums take ROWS at a time, so the last few are filled up with zeros. */
AVX2 INLINE void quantise_rows(Job *job, Room *room, const float *x, int rows, int n) {
    for (int r = 0; r < rows; r++) {
        room->steps[r] = quantise(x + (size_t)r * n, n, LARGEST, room->q + (size_t)r * n);
        room->own[r] = own_part(room->q + (size_t)r * n, n);
        if (room->steps[r] < 0) atomic_store(&job->status, NOT_FINITE);
    }
    int spare = (ROWS - rows % ROWS) % ROWS;
    memset(room->q + (size_t)rows * n, 0, (size_t)spare * n * sizeof *room->q);
    memset(room->own + rows, 0, (size_t)spare * sizeof *room->own);
}

enum After { STORE, GELU, ADD };

/* Prefetches one of `parts` equal parts of a panel. */
INLINE void fetch(const int16_t *panel, int inputs, int part, int parts) {
    size_t bytes = (size_t)COLUMNS * inputs * sizeof *panel, share = (bytes + parts - 1) / parts;
    const char *from = (const char *)panel + part * share;
    for (size_t i = 0; i < share; i += 64) _mm_prefetch(from + i, _MM_HINT_T1);
}

/* y = x w + bias for the quantised rows. Output o of a row goes to plane o / across, where rows are
 * `across` wide and planes `plane` numbers apart. */
AVX2 INLINE void linear(Job *job, Room *room, int rows, int inputs, int outputs, const int16_t *weight,
                        const uint32_t *own, const float *step, const float *bias, enum After after, float *y,
                        int across, size_t plane) {
    for (int o = 0; o < outputs; o += COLUMNS) {
        const int16_t *panel = weight + (size_t)o * inputs;
        float *at = y + o / across * plane + o % across;
        for (int first = 0; first < rows; first += ROWS) {
            fetch(panel + (size_t)COLUMNS * inputs, inputs, first / ROWS, (rows + ROWS - 1) / ROWS);
            job->sums(room->q + (size_t)first * inputs, room->own + first, panel, own + o, inputs, room->sums);
            for (int r = first; r < rows && r < first + ROWS; r++)
                for (int half = 0; half < COLUMNS; half += 8) {
                    const int32_t *sums = room->sums + (r - first) * COLUMNS + half;
                    float *to = at + (size_t)r * across + half;
                    Eight sum = _mm256_cvtepi32_ps(_mm256_load_si256((const __m256i *)sums));
                    Eight scale = _mm256_mul_ps(all(room->steps[r]), load(step + o + half));
                    Eight value = times_plus(sum, scale, load(bias + o + half));
                    if (after == GELU) value = gelu(value);
                    if (after == ADD) value = _mm256_add_ps(value, load(to));
                    store(to, value);
                }
        }
    }
}

/* Keys in panels of COLUMNS, like weights: number d of all of them, and then the next one; by
 * transposes of 8 x 8. Behind the last key the last one is repeated. */
AVX2 INLINE void transpose_keys(const float *key, int pieces, int wide, float *keys) {
    for (int j = 0; j < wide; j += 8)
        for (int d = 0; d < HEAD; d += 8) {
            float *to = keys + j / COLUMNS * HEAD * COLUMNS + d * COLUMNS + j % COLUMNS;
            Eight a[8], b[8];
            for (int t = 0; t < 8; t++) a[t] = load(key + (size_t)(j + t < pieces ? j + t : pieces - 1) * HEAD + d);
            for (int t = 0; t < 8; t += 2) {
                b[t] = _mm256_unpacklo_ps(a[t], a[t + 1]);
                b[t + 1] = _mm256_unpackhi_ps(a[t], a[t + 1]);
            }
            for (int t = 0; t < 8; t += 4)
                for (int u = 0; u < 2; u++) {
                    a[t + 2 * u] = _mm256_shuffle_ps(b[t + u], b[t + u + 2], 0x44);
                    a[t + 2 * u + 1] = _mm256_shuffle_ps(b[t + u], b[t + u + 2], 0xEE);
                }
            for (int t = 0; t < 4; t++) {
                store(to + t * COLUMNS, _mm256_permute2f128_ps(a[t], a[t + 4], 0x20));
                store(to + (t + 4) * COLUMNS, _mm256_permute2f128_ps(a[t], a[t + 4], 0x31));
            }
        }
}

/* weights[r][j] = e^(query r . key j - the largest of row r) for up to QUERIES queries; and for every
 * row one over their sum. */
AVX2 INLINE void weigh(const float *query, int rows, const float *keys, int pieces, int wide, float *weights,
                       float *inverse) {
    for (int j = 0; j < wide; j += COLUMNS) {
        Eight s[QUERIES][2];
        UNROLLED for (int r = 0; r < QUERIES; r++) s[r][0] = s[r][1] = all(0);
        for (int d = 0; d < HEAD; d++) {
            const float *key = keys + j * HEAD + d * COLUMNS;
            Eight k0 = load(key), k1 = load(key + 8);
            UNROLLED for (int r = 0; r < QUERIES; r++) {
                Eight q = all(query[(r < rows ? r : rows - 1) * HEAD + d]);
                s[r][0] = times_plus(q, k0, s[r][0]);
                s[r][1] = times_plus(q, k1, s[r][1]);
            }
        }
        UNROLLED for (int r = 0; r < QUERIES; r++)
            UNROLLED for (int h = 0; h < 2; h++) store(weights + (size_t)r * wide + j + 8 * h, s[r][h]);
    }
    for (int r = 0; r < rows; r++) {
        float *w = weights + (size_t)r * wide;
        for (int j = pieces; j < wide; j++) w[j] = -INFINITY;
        Eight top = load(w), sum = all(0);
        for (int j = 8; j < wide; j += 8) top = _mm256_max_ps(top, load(w + j));
        top = all(largest_of(top));
        for (int j = 0; j < wide; j += 8) {
            Eight e = exp_below_0(_mm256_sub_ps(load(w + j), top));
            store(w + j, e);
            sum = _mm256_add_ps(sum, e);
        }
        inverse[r] = 1.f / sum_of(sum);
    }
}

/* seen[r] = the mean of the values under the weights of row r, three rows at a time. */
AVX2 INLINE void average(const float *weights, const float *inverse, int rows, const float *value, int pieces,
                         int wide, float *seen) {
    enum { SOME = 3, PARTS = HEAD / 8 };
    for (int first = 0; first < rows; first += SOME) {
        Eight sum[SOME][PARTS];
        UNROLLED for (int r = 0; r < SOME; r++)
            UNROLLED for (int p = 0; p < PARTS; p++) sum[r][p] = all(0);
        for (int j = 0; j < pieces; j++)
            UNROLLED for (int r = 0; r < SOME; r++) {
                Eight w = all(weights[(size_t)(first + r) * wide + j]);
                UNROLLED for (int p = 0; p < PARTS; p++) sum[r][p] = times_plus(w, load(value + j * HEAD + 8 * p), sum[r][p]);
            }
        for (int r = 0; r < SOME && first + r < rows; r++)
            for (int p = 0; p < PARTS; p++)
                store(seen + (size_t)(first + r) * WIDTH + 8 * p, _mm256_mul_ps(sum[r][p], all(inverse[first + r])));
    }
}

/* Attention of the rows [from, to), which may belong to several texts. */
AVX2 static void attend(Job *job, Room *room, const float *qkv, int from, int to) {
    size_t plane = (size_t)job->rows * HEAD;
    for (int a = from, b; a < to; a = b) {
        int start = job->starts[job->text[a]], end = job->starts[job->text[a] + 1];
        int pieces = end - start, wide = (pieces + 15) & ~15;
        b = end < to ? end : to;
        for (int head = 0; head < HEADS; head++) {
            const float *query = qkv + head * plane;
            const float *key = query + HEADS * plane + (size_t)start * HEAD, *value = key + HEADS * plane;
            transpose_keys(key, pieces, wide, room->keys);
            for (int i = a; i < b; i += QUERIES) {
                int rows = b - i < QUERIES ? b - i : QUERIES;
                float inverse[QUERIES];
                weigh(query + (size_t)i * HEAD, rows, room->keys, pieces, wide, room->weights, inverse);
                float *seen = room->seen + (size_t)(i - from) * WIDTH + head * HEAD;
                average(room->weights, inverse, rows, value, pieces, wide, seen);
            }
        }
    }
}

/* The phases of a job. Each is done for all tiles before the next begins: first the embeddings and
 * what layer 0 asks of the others; then, for every layer, what its rows see in each other, and what
 * the next layer asks; and last the means. */
enum { PHASES = LAYERS + 2 };

AVX2 static void ask(Job *job, Room *room, int layer, int from, int rows) {
    const Layer *l = job->model->layers + layer;
    size_t plane = (size_t)job->rows * HEAD;
    quantise_rows(job, room, job->x + (size_t)from * WIDTH, rows, WIDTH);
    linear(job, room, rows, WIDTH, 3 * WIDTH, l->attention.weight, l->attention.own, l->attention.step, l->attention.bias, STORE,
           job->qkv[layer % 2] + (size_t)from * HEAD, HEAD, plane);
}

AVX2 static void embed(Job *job, int from, int rows) {
    for (int i = from; i < from + rows; i++) {
        const float *word = job->words + (size_t)job->ids[i] * WIDTH;
        const float *place = job->model->places + (size_t)(i - job->starts[job->text[i]]) * WIDTH;
        float *x = job->x + (size_t)i * WIDTH;
        for (int d = 0; d < WIDTH; d += 8) store(x + d, _mm256_add_ps(load(word + d), load(place + d)));
        normalise(x, job->model->norm.weight, job->model->norm.bias);
    }
}

AVX2 static void go_through(Job *job, Room *room, int layer, int from, int rows) {
    const Layer *l = job->model->layers + layer;
    float *x = job->x + (size_t)from * WIDTH;
    attend(job, room, job->qkv[layer % 2], from, from + rows);
    quantise_rows(job, room, room->seen, rows, WIDTH);
    linear(job, room, rows, WIDTH, WIDTH, l->output.weight, l->output.own, l->output.step, l->output.bias, ADD, x, WIDTH, 0);
    for (int r = 0; r < rows; r++) normalise(x + (size_t)r * WIDTH, l->attention_norm.weight, l->attention_norm.bias);
    quantise_rows(job, room, x, rows, WIDTH);
    linear(job, room, rows, WIDTH, WIDE, l->up.weight, l->up.own, l->up.step, l->up.bias, GELU, room->wide, WIDE, 0);
    quantise_rows(job, room, room->wide, rows, WIDE);
    linear(job, room, rows, WIDE, WIDTH, l->down.weight, l->down.own, l->down.step, l->down.bias, ADD, x, WIDTH, 0);
    for (int r = 0; r < rows; r++) normalise(x + (size_t)r * WIDTH, l->output_norm.weight, l->output_norm.bias);
}

static void pool(Job *job, int text) {
    float *out = job->out + (size_t)text * WIDTH;
    double squares = 0;
    memset(out, 0, WIDTH * sizeof *out);
    for (int i = job->starts[text]; i < job->starts[text + 1]; i++)
        for (int d = 0; d < WIDTH; d++) out[d] += job->x[(size_t)i * WIDTH + d];
    for (int d = 0; d < WIDTH; d++) squares += (double)out[d] * out[d];
    if (!(squares > 0) || !(squares < INFINITY)) atomic_store(&job->status, NOT_FINITE);
    for (int d = 0; d < WIDTH; d++) out[d] = (float)(out[d] / sqrt(squares));
}

/* Tiles are as even as whole groups of ROWS allow, so that threads reach the end together. */
static int first_row(const Job *job, int tile) {
    int groups = (job->rows + ROWS - 1) / ROWS, row = (int)((int64_t)groups * tile / job->tiles) * ROWS;
    return row < job->rows ? row : job->rows;
}

static void do_unit(Job *job, Room *room, int phase, int tile) {
    int from = first_row(job, tile), rows = first_row(job, tile + 1) - from;
    if (phase == 0) embed(job, from, rows);
    if (phase > 0 && phase <= LAYERS) go_through(job, room, phase - 1, from, rows);
    if (phase < LAYERS) ask(job, room, phase, from, rows);
    if (phase > LAYERS)
        for (int text = tile; text < job->texts; text += job->tiles) pool(job, text);
}

EXPORT void minilm_end(Job *job) {
    if (!job) return;
    give_back(job->text);
    give_back(job->x);
    give_back(job->qkv[0]);
    give_back(job->qkv[1]);
    give_back(job);
}

/* A job on texts whose pieces stand one after the other in `ids`; `starts` has an entry for every
 * text and one for the end. `threads` is how many may come to work on it, and changes nothing but
 * the size of what each takes at a time. `out` has WIDTH numbers for every text. */
EXPORT int minilm_begin(const Model *model, const float *words, int vocabulary, const int32_t *ids,
                        const int32_t *starts, int texts, int threads, int kernel, float *out, Job **begun) {
    *begun = NULL;
    if (texts < 1 || threads < 1 || kernel < PLAIN || kernel > AVX2_MADD || starts[0] != 0) return BAD_INPUT;
    for (int t = 0; t < texts; t++) {
        int64_t pieces = (int64_t)starts[t + 1] - starts[t];
        if (pieces < 1 || pieces > LONGEST) return BAD_INPUT;
    }
    int rows = starts[texts];
    if (rows > MAX_ROWS) return BAD_INPUT;
    for (int i = 0; i < rows; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary) return BAD_INPUT;
    Job *job = room_for(sizeof *job);
    if (!job) return NO_MEMORY;
    int blocks = (rows + BLOCK - 1) / BLOCK, groups = (rows + ROWS - 1) / ROWS;
    if (threads > groups) threads = groups;
    int tiles = (blocks + threads - 1) / threads * threads;
    *job = (Job){
        .model = model, .words = words, .ids = ids, .starts = starts, .texts = texts, .rows = rows,
        .tiles = tiles < groups ? tiles : groups, .out = out, .sums = SUMS[kernel],
        .text = room_for((size_t)rows * sizeof(int32_t)),
        .x = room_for((size_t)rows * WIDTH * sizeof(float)),
        .qkv = {room_for((size_t)rows * 3 * WIDTH * sizeof(float)), room_for((size_t)rows * 3 * WIDTH * sizeof(float))},
    };
    if (!job->text || !job->x || !job->qkv[0] || !job->qkv[1]) {
        minilm_end(job);
        return NO_MEMORY;
    }
    for (int t = 0; t < texts; t++)
        for (int i = starts[t]; i < starts[t + 1]; i++) job->text[i] = t;
    *begun = job;
    return OK;
}

/* Work on a job until nothing of it is left to take. Units are taken in order, so whoever waits for
 * the phase before waits for threads that are at work, never for one that has yet to come. The
 * vectors are there when every call that was begun has returned. */
EXPORT int minilm_work(Job *job) {
    Room *room = room_for(sizeof *room);
    if (!room) return NO_MEMORY;
    for (;;) {
        int unit = atomic_fetch_add(&job->next, 1), phase = unit / job->tiles;
        if (phase >= PHASES) break;
        for (int spins = 0; atomic_load(&job->done) < phase * job->tiles; spins++)
            if (spins < 1000) _mm_pause(); else give_way();
        if (atomic_load(&job->status) == OK) do_unit(job, room, phase, unit % job->tiles);
        atomic_fetch_add(&job->done, 1);
    }
    give_back(room);
    return atomic_load(&job->status);
}

#endif
