/** Whether the environment names a model that the roles can be played by. */
export const hasModel = (env: NodeJS.ProcessEnv = process.env): boolean =>
  Boolean(env.OPENAI_API_KEY || env.OPENAI_BASE_URL)
