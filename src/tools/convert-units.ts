/** Physical units, by the table of the maths library. */
import { own } from '../shared/values.ts'
import { math } from './calculate.ts'
import { Refused } from './options.ts'

const SHOWN_DIGITS = 15
const NUMBER = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?\s*$/i

// what people write, and the library's name for it; "C" and "F" are coulomb and farad
const otherNames: Record<string, string> = {
  '°c': 'degC',
  '°f': 'degF',
  '°k': 'K',
  µm: 'um',
  µs: 'us',
  mph: 'mile/hour',
  kmh: 'km/hour',
  kph: 'km/hour',
  knots: 'nauticalMile/hour',
  '°': 'deg',
}

export function convertUnits(value: string, from: string, to: string): string {
  if (!NUMBER.test(value)) throw new Refused(`The value ${JSON.stringify(value.slice(0, 60))} is no number.`)
  const [source, target] = [unitOf(from), unitOf(to)]
  const amount = math.unit(math.bignumber(value.trim()), source)
  if (!amount.equalBase(math.unit(target))) {
    throw new Refused(`"${from}" cannot become "${to}": they measure different things.`)
  }
  return math.format(amount.toNumeric(target), { precision: SHOWN_DIGITS, lowerExp: -9, upperExp: 21 })
}

function unitOf(given: string): string {
  const name = own(otherNames, given.toLowerCase()) ?? given
  // the library's parser of units takes numbers too, and powers without a bound
  if (/^[a-z][a-z\d_]*(?:\^-?[1-9])?(?:[*/ ][a-z][a-z\d_]*(?:\^-?[1-9])?)*$/i.test(name)) {
    try {
      return math.unit(name).formatUnits()
    } catch {
      // said below
    }
  }
  throw new Refused(
    `${JSON.stringify(given.slice(0, 60))} is no known unit; "km", "degC", "m/s^2" are some. Money is not a unit.`,
  )
}
