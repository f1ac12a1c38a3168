/** Runs a query before an audience: what is decided and which tools are called is told on stderr as it happens. */
import type { MultiAgentResult, RuntimeEvent, Team } from 'dramatis'

const LONGEST_INPUT = 100

/** What came of the run. Throws what it failed with. */
export async function play(team: Team, query: string): Promise<MultiAgentResult> {
  console.error(`> ${query}`)
  const run = team.launch(query)
  for await (const event of run.events()) {
    const line = lineOf(event)
    if (line !== undefined) console.error(`  ${line}`)
  }
  const result = await run.result
  if (!result.success) throw result.error
  return result
}

function lineOf(event: RuntimeEvent): string | undefined {
  switch (event.type) {
    case 'decision':
      return `${event.question} ${event.choice} (${event.reason})`
    case 'tool.started':
      return `${event.agent}: ${event.tool} ${short(JSON.stringify(event.input))}`
    case 'tool.finished':
      return event.error ? `${event.agent}: ${event.tool} failed: ${event.error.message}` : undefined
    default:
      return undefined
  }
}

const short = (text: string) => (text.length > LONGEST_INPUT ? `${text.slice(0, LONGEST_INPUT)}...` : text)
