package model

// ChatTemplate renders chats into text with special tokens.
type ChatTemplate struct {
	source string
}
