/** The metadata of a message whose words say all that its data says: a model that plays a role is not shown the same twice. */
export const IN_WORDS = Object.freeze({ inWords: true })
