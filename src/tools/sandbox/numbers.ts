/** The maths library, set up for exact decimals. Loaded in a thread of the sandbox alone, as it is large. */
import library from 'mathjs/lib/browser/math.js'

/** Digits of a result. The library counts with a few more, so that a result's last digit is right. */
export const DIGITS = 60

export const math = library.create({ number: 'BigNumber', precision: DIGITS + 4 })
