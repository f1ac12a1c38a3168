/** Four agents study four years of weather and one loses its thread. Prints the report and what happened on the way. */
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createTeam, sequenceDiagram } from 'dramatis'
import { accountOf } from './lib/account.ts'

const interrupted = new AbortController()
// Once: a second Ctrl-C ends the process the usual way.
process.once('SIGINT', () => interrupted.abort())

async function main(): Promise<void> {
  const { trace: traceFile } = parseArgs({ options: { trace: { type: 'string' } } }).values
  const desk = deskFolder()
  const agent = (file: string) => new URL(`agents/${file}.ts`, desk)
  const data = {
    csv: fileURLToPath(new URL('data/seattle-weather.csv', desk)),
    source: 'NOAA National Climatic Data Center, by way of vega-datasets',
  }

  const team = createTeam({
    agents: [
      { name: 'collector', module: agent('collector'), capabilities: ['data_collection'], data },
      { name: 'anomaly_analyst', module: agent('anomaly-analyst'), capabilities: ['analysis'] },
      { name: 'trend_analyst', module: agent('trend-analyst'), capabilities: ['analysis'] },
      { name: 'synthesizer', module: agent('synthesizer'), capabilities: ['synthesis'] },
    ],
    orchestration: {
      strategy: 'parallel',
      agents: ['collector', 'anomaly_analyst', 'trend_analyst'],
      aggregationStrategy: 'custom',
      aggregator: 'synthesizer',
    },
    enableBlackboard: true,
  })
  try {
    const result = await team.execute('What stood out, and was the weather changing?', { signal: interrupted.signal })
    if (!result.success) throw result.error
    console.log(result.finalOutput)
    const board = (await team.getBlackboard(result.runId)?.query()) ?? []
    console.log(`\n${accountOf({ result, health: team.health(), deadLetters: team.deadLetters.list(), board })}`)
    if (traceFile !== undefined) {
      await writeFile(traceFile, sequenceDiagram(result.orchestrationTrace))
      console.log(`Its sequence diagram is in ${traceFile}.`)
    }
  } finally {
    await team.close()
  }
}

/** The folder with the agents' sources and the data, seen from here or from the compiled copy of this file. */
function deskFolder(): URL {
  for (let folder = new URL('.', import.meta.url); ; folder = new URL('..', folder)) {
    const desk = new URL('examples/data-desk/', folder)
    if (existsSync(new URL('agents/collector.ts', desk))) return desk
    if (folder.pathname === new URL('..', folder).pathname)
      throw new Error('examples/data-desk is not in any folder above this file.')
  }
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = interrupted.signal.aborted ? 130 : 1
})
