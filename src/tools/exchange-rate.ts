/** `exchange_rate`: what one unit of a currency is worth in another. */
import { z } from 'zod'
import type { Tool } from '../actors/definition/tool.ts'
import { checkedOptions } from './options.ts'
import { baseUrl, endpoint, parsed, type Question, serviceTimeout, serviceTool } from './service.ts'

/** Value of one `from` in `to`. */
export interface ExchangeRate {
  from: string
  to: string
  rate: number
  /** The day of the rate, `2026-07-03`. */
  date: string
}

const optionsSchema = z.strictObject({
  baseURL: baseUrl.default('https://api.frankfurter.dev'),
  timeoutMs: serviceTimeout,
})

const currency = z
  .string()
  .trim()
  .regex(/^[A-Za-z]{3}$/, 'expected a currency code of three letters (ISO 4217), like USD')
  .transform((code) => code.toUpperCase())
const inputSchema = z
  .strictObject({
    from: currency.describe('The code of the currency that is given, like USD'),
    to: currency.describe('The code of the currency that is asked for, like TWD'),
  })
  .refine(({ from, to }) => from !== to, 'from and to are one currency: the rate is 1')

const answerSchema = z.object({ date: z.string().max(40), rate: z.number().positive() })
const errorSchema = z.object({ message: z.string() })

/**
 * A tool that gives the exchange rate of two currencies: the reference rate of central banks of the last working day,
 * by Frankfurter (frankfurter.dev, version 2 of its API), which needs no key and knows some 200 currencies.
 *
 * @param options `baseURL`: an instance of your own; `timeoutMs`: of one question, 15,000 by default.
 * @throws ToolFailedError there is no such currency, or the service cannot be reached or has a fault; `details.status`.
 * @throws ToolTimeoutError it took longer than `timeoutMs`.
 * @example
 * { name: 'finance', tools: [exchangeRate(), stockPrice()] }
 */
export function exchangeRate(
  options: { baseURL?: string; timeoutMs?: number } = {},
): Tool<{ from: string; to: string }, ExchangeRate> {
  const { baseURL, timeoutMs } = checkedOptions('exchangeRate', optionsSchema, options)
  return serviceTool({
    name: 'exchange_rate',
    description:
      'Gives what one unit of a currency is worth in another, by the reference rates of central banks of the last working day.',
    input: inputSchema,
    timeoutMs,
    async run({ from, to }, ask) {
      const { rate, date } = parsed('Frankfurter', await ask(question(baseURL, from, to)), answerSchema)
      return { from, to, rate, date }
    },
  })
}

function question(baseURL: string, from: string, to: string): Question {
  const unknown = `Check that ${from} and ${to} are currencies of today (ISO 4217).`
  return {
    service: 'Frankfurter',
    url: endpoint(baseURL, `/v2/rate/${from}/${to}`),
    reasonIn: (body) => errorSchema.safeParse(body).data?.message,
    advice: { 404: unknown, 422: unknown },
  }
}
