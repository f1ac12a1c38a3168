/**
 * Four agents study four years of weather and one loses its thread. Prints the report and what happened on the way. If
 * the process is killed, the next start goes on with its log.
 */
import { existsSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createTeam, sequenceDiagram } from 'dramatis'
import { accountOf } from './lib/account.ts'
import { foundLine, foundRun } from './lib/found-run.ts'
import { takeLogFolder } from './lib/log-folder.ts'

const QUERY = 'What stood out, and was the weather changing?'

const interrupted = new AbortController()
// Once: a second Ctrl-C ends the process the usual way.
process.once('SIGINT', () => interrupted.abort())

async function main(): Promise<void> {
  const options = { trace: { type: 'string' }, log: { type: 'string' } } as const
  const { trace: traceFile, log } = parseArgs({ options }).values
  const desk = deskFolder()
  const logFolder = await takeLogFolder(log ?? fileURLToPath(new URL('../../.cache/data-desk', desk)))
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
    // By hand, to look at what is there before it goes on. Whoever plays with the code in between is not held up.
    stateManagement: { path: logFolder, resume: 'manual', onMismatch: 'continue' },
  })
  try {
    await team.start()
    const [left] = await team.listRuns()
    const found = left?.status === 'interrupted' ? await foundRun(team, left.id) : undefined
    if (found) console.error(`Going on with the run of a process that was killed: ${foundLine(found)}\n`)
    else if (left) console.error('A process was killed when its run had ended. This is what had come of it:\n')
    const { signal } = interrupted
    const result = left ? await team.resume(left.id, { signal }) : await team.execute(QUERY, { signal })
    if (!result.success) throw result.error
    console.log(result.finalOutput)
    const board = (await team.getBlackboard(result.runId)?.query()) ?? []
    const evidence = { result, health: team.health(), deadLetters: team.deadLetters.list(), board }
    console.log(`\n${accountOf({ ...evidence, found })}`)
    if (traceFile !== undefined) {
      await writeFile(traceFile, sequenceDiagram(result.orchestrationTrace))
      console.log(`Its sequence diagram is in ${traceFile}.`)
    }
  } finally {
    await team.close()
    await rm(logFolder, { recursive: true, force: true }) // only a process that was killed leaves its log behind
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
