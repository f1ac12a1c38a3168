/** `stock_price`: the last price of a share. */
import { z } from 'zod'
import { defineTool, type Tool } from '../actors/definition/tool.ts'
import { checkedOptions } from './options.ts'
import { alphaVantage, type StockPrice, stooq } from './stock-services.ts'
import { MARGIN_MS } from './web/deadline.ts'
import { asking, baseUrl, envName, keyIn, serviceTimeout } from './web/service.ts'

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
  return defineTool({
    name: 'stock_price',
    description: 'Gives the last price of a share, with its currency (GBX: pence) and its day.',
    input: inputSchema,
    readOnly: true,
    outside: true,
    idempotent: true,
    timeoutMs: timeoutMs + MARGIN_MS,
    run: ({ symbol }, context) =>
      asking('stock_price', timeoutMs, context, async (ask) => {
        const key = apiKeyEnv === undefined ? '' : keyIn(apiKeyEnv, 'stock_price')
        return service.price(symbol, await ask(service.question(symbol, baseURL, key)))
      }),
  })
}
