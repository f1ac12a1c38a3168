/** Whether the environment names a model that the roles can be played by. */
export const hasModel = (): boolean => Boolean(process.env.OPENAI_API_KEY || process.env.OPENAI_BASE_URL)
