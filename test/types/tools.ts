/** What goes into a tool and what comes out of it is inferred from its definition, here and at whoever calls it. */
import { defineAgent, defineTool, type RuntimeEvent, type Tool, type ToolReference } from 'dramatis'
import { testAgent } from 'dramatis/testing'
import { z } from 'zod'

export const weather = defineTool({
  name: 'weather',
  description: 'Says how warm it is.',
  input: z.object({ city: z.string(), days: z.number().default(1) }),
  idempotent: true,
  timeoutMs: 5_000,
  run({ city, days }, { signal, log, progress }) {
    log.info({ city: city.trim(), days: days.toFixed(0) }, 'asks')
    progress('half')
    return { celsius: signal.aborted ? 0 : 21 }
  },
})

export const typed = (): Tool<{ city: string; days?: number | undefined }, { celsius: number }> => weather

export default defineAgent({
  async receive(_message, context) {
    const { celsius } = await context.tool(weather, { city: 'Oslo' })
    const again = await context.tool<typeof weather>('weather', { city: 'Oslo', days: 2 })
    // @ts-expect-error it takes a city
    await context.tool(weather, { town: 'Oslo' })
    // @ts-expect-error its output has no such field
    celsius.fahrenheit
    const untyped: unknown = await context.tool('anything', { x: 1 })
    return `${celsius.toFixed(1)} ${again.celsius} ${String(untyped)}`
  },
})

export const references: ToolReference[] = [
  weather,
  'delegate',
  { module: new URL('./weather.js', import.meta.url), export: 'weather' },
  { module: 'a-package', isolate: true, env: ['KEY'], limits: { maxHeapMb: 64 } },
]

export const shown = (event: RuntimeEvent): string =>
  event.type === 'tool.finished' ? `${event.tool} ${event.durationMs} ${event.error?.code}` : event.type

export const tested = testAgent(defineAgent({ receive: () => '' }), { tools: { weather: () => ({ celsius: 3 }) } })
