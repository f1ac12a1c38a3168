/** `stock_price`: the last price of a share. */
import { z } from 'zod'
import type { Tool } from '../actors/definition/tool.ts'
import { own } from '../shared/values.ts'
import { checkedOptions } from './options.ts'
import {
  baseUrl,
  endpoint,
  envName,
  failedBy,
  keyIn,
  malformed,
  parsed,
  type Question,
  refusedBy,
  serviceTimeout,
  serviceTool,
} from './service.ts'

export interface StockPrice {
  /** As the service writes it, with its exchange. */
  symbol: string
  price: number
  /** ISO 4217, or GBX: pence, in which London is quoted. */
  currency: string
  /** The day of the price, `2026-07-03`. */
  date: string
}

export interface StockService {
  question(symbol: string, baseURL: string | undefined, key: string): Question
  price(symbol: string, answer: string): StockPrice
}

/** Exchange by suffix: how the service writes it, and what it is quoted in. */
type Exchanges = Readonly<Record<string, readonly [suffix: string, currency: string]>>

/** Source: stooq.com/q. Warsaw has no suffix there; a symbol without one is meant for New York more often. */
const STOOQ: Exchanges = {
  '': ['.us', 'USD'],
  US: ['.us', 'USD'],
  UK: ['.uk', 'GBX'],
  L: ['.uk', 'GBX'],
  DE: ['.de', 'EUR'],
  JP: ['.jp', 'JPY'],
  T: ['.jp', 'JPY'],
  HK: ['.hk', 'HKD'],
  HU: ['.hu', 'HUF'],
  PL: ['', 'PLN'],
  WA: ['', 'PLN'],
}

/** Source: alphavantage.co/documentation. */
const ALPHA_VANTAGE: Exchanges = {
  '': ['', 'USD'],
  US: ['', 'USD'],
  LON: ['.LON', 'GBX'],
  L: ['.LON', 'GBX'],
  TRT: ['.TRT', 'CAD'],
  TO: ['.TRT', 'CAD'],
  TRV: ['.TRV', 'CAD'],
  DEX: ['.DEX', 'EUR'],
  DE: ['.DEX', 'EUR'],
  FRK: ['.FRK', 'EUR'],
  AMS: ['.AMS', 'EUR'],
  PAR: ['.PAR', 'EUR'],
  BSE: ['.BSE', 'INR'],
  SHH: ['.SHH', 'CNY'],
  SHZ: ['.SHZ', 'CNY'],
  SAO: ['.SAO', 'BRL'],
}

/** Service whose answer is one line under its header. Source: stooq.com/q/l/?s=aapl.us&f=sd2t2ohlcv&h&e=csv */
export const stooq: StockService = {
  question(symbol, baseURL = 'https://stooq.com') {
    const { ticker, suffix } = placed(symbol, STOOQ, 'Stooq')
    return {
      service: 'Stooq',
      url: endpoint(baseURL, '/q/l/', { s: (ticker + suffix).toLowerCase(), f: 'sd2t2ohlcv', h: '', e: 'csv' }),
    }
  },
  price(symbol, answer) {
    if (/^\s*</.test(answer)) throw refusedBy('Stooq', 'this has to be asked from a browser', WITH_KEY)
    if (/exceeded the daily hits limit/i.test(answer))
      throw refusedBy('Stooq', 'Exceeded the daily hits limit', `Try again tomorrow. ${WITH_KEY}`)
    const [header = '', line = ''] = answer.trim().split(/\r?\n/)
    const names = header.split(',')
    const fields = new Map(line.split(',').map((field, column) => [names[column], field]))
    const close = fields.get('Close')
    const date = fields.get('Date')
    if (close === undefined || date === undefined) throw malformed('Stooq', 'no CSV with the columns Date and Close')
    if (close === 'N/D') throw unknownSymbol('Stooq', symbol)
    const { currency } = placed(symbol, STOOQ, 'Stooq')
    return { symbol: fields.get('Symbol') ?? symbol, price: positive('Stooq', close), currency, date }
  },
}

const WITH_KEY = 'A key for Alpha Vantage (apiKeyEnv) is a way around it.'

const quoteSchema = z.object({
  'Global Quote': z
    .object({ '01. symbol': z.string().max(40), '05. price': z.string(), '07. latest trading day': z.string().max(40) })
    .partial()
    .optional(),
  'Error Message': z.string().optional(),
  Note: z.string().optional(),
  Information: z.string().optional(),
})

/** Whatever goes wrong, the status is 200. Source: alphavantage.co/documentation, Quote Endpoint. */
export const alphaVantage: StockService = {
  question(symbol, baseURL = 'https://www.alphavantage.co', key) {
    const { ticker, suffix } = placed(symbol, ALPHA_VANTAGE, 'Alpha Vantage')
    const url = endpoint(baseURL, '/query', { function: 'GLOBAL_QUOTE', symbol: ticker + suffix, apikey: key })
    return { service: 'Alpha Vantage', url, secret: key }
  },
  price(symbol, answer) {
    const said = parsed('Alpha Vantage', answer, quoteSchema)
    const { 'Global Quote': quote, 'Error Message': error, Note, Information } = said
    if (error !== undefined) throw refusedBy('Alpha Vantage', error, 'Check the symbol and the key.')
    const limit = Note ?? Information
    if (limit !== undefined)
      throw refusedBy('Alpha Vantage', limit, 'It was asked too often, or the key may not do that.')
    if (!quote) throw malformed('Alpha Vantage', 'no Global Quote')
    const { '01. symbol': name, '05. price': price, '07. latest trading day': date } = quote
    if (name === undefined && price === undefined) throw unknownSymbol('Alpha Vantage', symbol)
    if (name === undefined || price === undefined || date === undefined)
      throw malformed('Alpha Vantage', 'half a Global Quote')
    const { currency } = placed(symbol, ALPHA_VANTAGE, 'Alpha Vantage')
    return { symbol: name, price: positive('Alpha Vantage', price), currency, date }
  },
}

/** The symbol in the service's own spelling. Throws if it names an exchange that the service does not have. */
function placed(symbol: string, exchanges: Exchanges, service: string) {
  const dot = symbol.lastIndexOf('.')
  const exchange = dot === -1 ? '' : symbol.slice(dot + 1).toUpperCase()
  const found = own(exchanges, exchange)
  if (found) return { ticker: dot === -1 ? symbol : symbol.slice(0, dot), suffix: found[0], currency: found[1] }
  const known = Object.keys(exchanges)
    .filter((name) => name !== '')
    .map((name) => `.${name}`)
    .join(' ')
  const message = `${service} has no exchange ".${exchange}" that this tool knows the currency of. It has: ${known}; without one, New York is meant. Is the share traded there, too?`
  throw failedBy(service, message)
}

function positive(service: string, text: string): number {
  const price = Number(text)
  if (text.trim() !== '' && Number.isFinite(price) && price > 0) return price
  throw malformed(service, 'a price that is no number')
}

const unknownSymbol = (service: string, symbol: string) =>
  failedBy(service, `${service} knows no share ${JSON.stringify(symbol)}. Check the symbol, and its exchange.`)

const optionsSchema = z.strictObject({
  apiKeyEnv: envName.optional(),
  baseURL: baseUrl.optional(),
  timeoutMs: serviceTimeout,
})

const inputSchema = z.strictObject({
  symbol: z
    .string()
    .trim()
    .regex(
      /^[A-Za-z0-9][A-Za-z0-9-]{0,14}(?:\.[A-Za-z]{1,4})?$/,
      'expected a ticker symbol, like AAPL, BRK-B or 7203.JP',
    )
    .describe('The ticker symbol, with its exchange unless it is in the United States: AAPL, 7203.JP, SAP.DE'),
})

/**
 * A tool that gives the last price of a share: by Stooq (stooq.com) without a key, by Alpha Vantage (alphavantage.co)
 * with one. Stooq has the United States, London, Tokyo, Hong Kong, Frankfurt, Budapest and Warsaw; it may ask for a
 * browser, and then the tool says so. The currency is that of the exchange; London is quoted in pence (GBX).
 *
 * @param options `apiKeyEnv`: the environment variable of the host with the key for Alpha Vantage, read at each call;
 *   `baseURL`: another place of the service; `timeoutMs`: 15,000 by default.
 * @throws ToolFailedError there is no such symbol or exchange, no key is set, or the service cannot be reached or
 *   refuses.
 * @throws ToolTimeoutError it took longer than `timeoutMs`.
 * @example
 * { name: 'finance', tools: [stockPrice({ apiKeyEnv: 'FINANCE_STOCK_API_KEY' })] }
 */
export function stockPrice(
  options: { apiKeyEnv?: string; baseURL?: string; timeoutMs?: number } = {},
): Tool<{ symbol: string }, StockPrice> {
  const { apiKeyEnv, baseURL, timeoutMs } = checkedOptions('stockPrice', optionsSchema, options)
  const service = apiKeyEnv === undefined ? stooq : alphaVantage
  return serviceTool({
    name: 'stock_price',
    description: 'Gives the last price of a share, with its currency (GBX: pence) and its day.',
    input: inputSchema,
    timeoutMs,
    async run({ symbol }, ask) {
      const key = apiKeyEnv === undefined ? '' : keyIn(apiKeyEnv, 'stock_price')
      return service.price(symbol, await ask(service.question(symbol, baseURL, key)))
    },
  })
}
