/* The machine's own limit: nothing but the instruction that the int16 encoder is made of, a
 * multiplication of sixteen pairs and an addition, in twelve independent sums. Prints operations
 * per nanosecond of CPU time. */
#include <immintrin.h>
#include <stdio.h>
#include <time.h>

__attribute__((target("avx2"))) int main(void) {
    enum { SUMS = 12, ROUNDS = 20000000 };
    __m256i sums[SUMS], x = _mm256_set1_epi16(3), y = _mm256_set1_epi16(5);
#pragma GCC unroll 12 /* all of the sums stay in registers only if no loop over them is left */
    for (int i = 0; i < SUMS; i++) sums[i] = _mm256_setzero_si256();
    clock_t start = clock();
    for (int round = 0; round < ROUNDS; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++) {
            __m256i product = _mm256_madd_epi16(x, y);
            __asm__ volatile("vpaddd %2, %0, %0" : "+x"(sums[i]), "+x"(x) : "x"(product));
        }
    }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    int kept = 0;
#pragma GCC unroll 12
    for (int i = 0; i < SUMS; i++) kept += _mm256_extract_epi32(sums[i], 0);
    printf("%.1f\n", kept ? ROUNDS * (double)SUMS * 32 / seconds / 1e9 : 0);
    return 0;
}
