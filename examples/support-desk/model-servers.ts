/** The two model servers of the desk: yours, or without a key two processes of this machine that answer by rules. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { hasModel } from '../lib/has-model.ts'

export async function modelServers() {
  const { DRAMATIS_MODEL: model = 'gpt-5-mini', SPARE_MODEL = model, SPARE_BASE_URL: baseURL } = process.env
  const apiKeyEnv = process.env.SPARE_API_KEY ? 'SPARE_API_KEY' : undefined
  if (hasModel())
    return { models: { fast: { model }, spare: { model: SPARE_MODEL, baseURL, apiKeyEnv } }, processes: [] }
  const server = new URL('../lib/rules-server.js', import.meta.url)
  const processes = ['fast', 'spare'].map(() => fork(server, [new URL('./rules.js', import.meta.url).href]))
  const [fast, spare] = await Promise.all(processes.map(async (each) => String((await once(each, 'message'))[0])))
  return { models: { fast: { model: 'rules', baseURL: fast }, spare: { model: 'rules', baseURL: spare } }, processes }
}
