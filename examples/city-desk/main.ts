/** Asks the desk a question: with the models that the environment names and the public services, or without both. */
import { createTeam, type Team } from 'dramatis'
import { inFlowMode } from 'dramatis/protocols'
import { hasModel } from '../lib/has-model.ts'
import { keywordModel } from './keyword-model.ts'
import { recordedServices } from './recorded-services.ts'
import { cityDesk } from './team.ts'

async function main(): Promise<void> {
  const question = process.argv.slice(2).join(' ') || '查台積電股價和美金匯率，台北今天會下雨嗎？'
  const recorded = hasModel() ? undefined : await recordedServices()
  if (recorded)
    console.error('No OPENAI_API_KEY: roles go by keywords, and the services are recorded ones of July 2026.\n')
  try {
    const desk = cityDesk(recorded && { services: recorded.origin, models: { default: keywordModel } })
    await answer(createTeam(inFlowMode(desk, process.env.FLOW_MODE)), question)
  } finally {
    await recorded?.close()
  }
}

async function answer(team: Team, question: string): Promise<void> {
  try {
    const { finalOutput, error, messageHistory, totalTokenUsage } = await team.execute(question)
    for (const { sender, recipient, content, structuredData } of messageHistory)
      if (sender === '$orchestrator' && Object(structuredData).subTaskId) console.error(`${recipient} <- ${content}`)
    if (error) throw error
    console.log(`\n${finalOutput}`)
    console.error(`\n${totalTokenUsage.calls} model calls, ${totalTokenUsage.totalTokens} tokens`)
  } finally {
    await team.close()
  }
}

await main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
})
