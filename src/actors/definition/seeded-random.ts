/**
 * Returns a random generator whose numbers follow from a message's id, so that a redelivered turn draws the same
 * numbers. The generator is sfc32 (C. Doty-Humphrey, PractRand).
 */
export function seededRandom(seed: ArrayLike<number>): () => number {
  let a = seed[0]! | 0
  let b = seed[1]! | 0
  let c = seed[2]! | 0
  let d = seed[3]! | 0
  const next = () => {
    const t = (((a + b) | 0) + d) | 0
    d = (d + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (c << 21) | (c >>> 11)
    c = (c + t) | 0
    return (t >>> 0) / 2 ** 32
  }
  for (let i = 0; i < 12; i++) next() // mixes a seed with few bits set
  return next
}
