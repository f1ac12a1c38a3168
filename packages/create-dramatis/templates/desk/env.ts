/** What a start needs, before any other file looks: `.env`, and a sentence in place of a stack for what it cannot work with. */
import { existsSync } from 'node:fs'
import { DramatisError } from 'dramatis'

process.on('uncaughtException', (error) => {
  console.error(error instanceof DramatisError || 'syscall' in error ? error.message : error)
  process.exit(1)
})
if (existsSync('.env')) process.loadEnvFile()
const { OPENAI_API_KEY, OPENAI_BASE_URL, DRAMATIS_MODEL } = process.env
if (DRAMATIS_MODEL && !OPENAI_API_KEY && !OPENAI_BASE_URL)
  console.error('DRAMATIS_MODEL is set, and OPENAI_API_KEY is not: no real model is asked.')
